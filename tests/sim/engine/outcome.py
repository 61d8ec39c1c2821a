"""The outcome of a seed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """The number of judged snapshots, the trace, and the crash points at which a merge died."""

    snapshots: int
    trace: list[str]
    deaths: list[str]
