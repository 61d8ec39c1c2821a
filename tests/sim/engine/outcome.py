"""What became of a seed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What a seed was about: judged snapshots, what happened, and the points at which a merge died."""

    snapshots: int
    story: list[str]
    deaths: list[str]
