"""A data file of a changelog, and its place in the order of events."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """Its ordinal in a slice stands for (snapshot sequence number, file) in the order of events."""

    path: str
    bytes: int
    events: int
    snapshot_id: int
    sequence_number: int
