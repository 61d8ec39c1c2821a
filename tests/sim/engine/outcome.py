"""The outcome of a seed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """Judged snapshots, what happened, and the crash points at which a merge died."""

    snapshots: int
    story: list[str]
    deaths: list[str]
