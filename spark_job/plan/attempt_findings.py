"""Findings of failed attempts at a slice, input of the next attempt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from icemirror.errors import Corrupt
from spark_job.iceberg.mirror import Mirror
from spark_job.index.segment import DamagedSegment

_MAX_UNREADABLE_REBUILDS = 8


@dataclass(frozen=True)
class AttemptFindings:
    """Findings of failed attempts at a slice, input of the next attempt.

    - `damaged`: index segments that cannot be read. `unreadable_rebuilds`: how many of them had just been rebuilt.
    - `needs_history`: the changelog before the slice is needed.
    - `scanned_for_truncation`: the slice was scanned for truncations.
    """

    damaged: frozenset[str] = frozenset()
    unreadable_rebuilds: int = 0
    needs_history: bool = False
    scanned_for_truncation: bool = False

    def with_damage(self, table: str, mirror: Mirror | None, error: DamagedSegment) -> AttemptFindings:
        """Add a damaged segment; raise if it was known, or if too many rebuilt segments are unreadable."""
        if error.path in self.damaged:
            raise error
        root = mirror.root if mirror else None
        is_committed = root is not None and any(segment.path == error.path for segment in root.segments)
        rebuilds = self.unreadable_rebuilds + (not is_committed)
        if rebuilds == _MAX_UNREADABLE_REBUILDS:
            raise Corrupt(
                f"{table}: rebuilt segments of the key index cannot be read either ({error}). Check whether the index "
                "location keeps what is written to it."
            )
        return replace(self, damaged=self.damaged | {error.path}, unreadable_rebuilds=rebuilds)


NO_FINDINGS = AttemptFindings()
