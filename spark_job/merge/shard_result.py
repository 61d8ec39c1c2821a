"""What a shard of a slice produces: files for the commit, or why the slice has to be planned again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile

from spark_job.changelog.rejected_rows import RejectedRows
from spark_job.index.segment import SegmentInfo
from spark_job.merge.locate import EventEffects


@dataclass(frozen=True)
class ShardResult:
    """What a shard wrote, and the old rows to delete. `indexed`: False for a table without a key."""

    events: int
    effects: EventEffects
    data_files: tuple[DataFile, ...]
    spec_ids: tuple[int, ...]
    segment: SegmentInfo | None
    removed_file: NDArray[np.int32]
    removed_pos: NDArray[np.int64]
    seconds: dict[str, float] = field(default_factory=dict)
    indexed: bool = True
    rejected: RejectedRows = field(default_factory=RejectedRows)

    @property
    def paths(self) -> list[str]:
        """Every file that the shard wrote."""
        segment = [self.segment.path] if self.segment else []
        return [file.file_path for file in self.data_files] + segment

    @property
    def changes_rows(self) -> bool:
        """Whether the mirror's rows or tombstones change."""
        return bool(self.effects.writes.any() or self.effects.tombstones.any())


@dataclass(frozen=True)
class HistoryNeeded:
    """The shard wrote nothing: only the changelog before the slice can decide some of its events."""

    reason: str

    @property
    def paths(self) -> list[str]:
        """There are none."""
        return []


@dataclass(frozen=True)
class TruncationFound:
    """The shard wrote nothing: an event states that the source was truncated, which the mirror has not followed."""

    file: int  # ordinal in the slice
    row: int

    @property
    def paths(self) -> list[str]:
        """There are none."""
        return []


Stopped = HistoryNeeded | TruncationFound
ShardOutcome = ShardResult | Stopped


def split_stopped(outcomes: Iterable[ShardOutcome]) -> tuple[list[ShardResult], Stopped | None]:
    """Return the results, and why a shard stopped, if one did."""
    results: list[ShardResult] = []
    stopped: Stopped | None = None
    for outcome in outcomes:
        if isinstance(outcome, ShardResult):
            results.append(outcome)
        else:
            stopped = stopped or outcome
    return results, stopped
