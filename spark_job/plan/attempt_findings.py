"""What failed attempts to merge a slice have found, for the next attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from icemirror.errors import Corrupt
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.truncations import LocatedTruncation
from spark_job.iceberg.mirror import Mirror
from spark_job.index.damaged_segment import DamagedSegment

_MAX_UNREADABLE_REBUILDS = 8


@dataclass(frozen=True)
class AttemptFindings:
    """Findings of failed attempts to merge a slice, input of the next attempt.

    - `damaged`: paths of index segments that cannot be read.
    - `unreadable_rebuilds`: how many rebuilt segments could not be read either.
    - `needs_history`: the next attempt also reads the changelog before the slice.
    - `scanned_for_truncation`: the slice was scanned for truncations, because an attempt stopped at one.
    - `truncation`: the last truncation that such a scan found.
    """

    damaged: frozenset[str] = frozenset()
    unreadable_rebuilds: int = 0
    needs_history: bool = False
    scanned_for_truncation: bool = False
    truncation: LocatedTruncation | None = None

    def with_damage(self, table: str, mirror: Mirror | None, error: DamagedSegment) -> AttemptFindings:
        """Return the findings with a damaged segment.

        Raise if the segment was rebuilt before, or if too many rebuilt segments are unreadable.
        """
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

    def find_truncation_in(self, files: Sequence[ChangelogFile]) -> LocatedTruncation | None:
        """Return the found truncation if it is in these files: after a conflict, the slice may have other files."""
        truncation = self.truncation
        return truncation if truncation and any(file.path == truncation.path for file in files) else None


NO_FINDINGS = AttemptFindings()
