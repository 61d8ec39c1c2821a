"""A data file of a changelog, and its place in the order of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """Its ordinal in a slice stands for (snapshot sequence number, file) in the order of events.

    `partition`: the columns that it is partitioned by as they are, by field id, and their value. `place`: among the
    files of its commit.
    """

    path: str
    bytes: int
    events: int
    snapshot_id: int
    sequence_number: int
    partition: tuple[tuple[int, Any], ...] = ()  # Any: of the type of the column
    place: int = 0
