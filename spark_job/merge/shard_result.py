"""What a shard of a slice produces: files for the commit, or why the slice has to be planned again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile

from spark_job.changelog.rejected_rows import RejectedRows
from spark_job.index.segment import SegmentInfo
from spark_job.merge.effects import EventEffects


@dataclass(frozen=True)
class ShardResult:
    """What a shard wrote, and the old rows to delete.

    `spec_ids`: the partition spec of each data file. `indexed`: False for a table without a key.
    """

    events: int
    effects: EventEffects
    data_files: tuple[DataFile, ...]
    segment: SegmentInfo | None
    removed_file: NDArray[np.int32]
    removed_pos: NDArray[np.int64]
    seconds: dict[str, float] = field(default_factory=dict)
    indexed: bool = True
    rejected: RejectedRows = field(default_factory=RejectedRows)
    spec_ids: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        # Pickling a DataFile loses its spec id.
        object.__setattr__(self, "spec_ids", tuple(file.spec_id for file in self.data_files))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files that the shard wrote."""
        segment = (self.segment.path,) if self.segment else ()
        return (*(file.file_path for file in self.data_files), *segment)

    @property
    def changes_rows(self) -> bool:
        """Return whether the mirror's rows or tombstones change."""
        return bool(self.effects.writes.any() or self.effects.tombstones.any())


class _StoppedShard:
    """A shard that wrote no file."""

    paths: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class HistoryNeeded(_StoppedShard):
    """The shard stopped: only the changelog before the slice can decide some of its events."""

    reason: str


@dataclass(frozen=True)
class TruncationFound(_StoppedShard):
    """The shard stopped: an event states that the source was truncated, which the mirror has not applied."""

    file: int  # ordinal in the slice
    row: int


StopReason = HistoryNeeded | TruncationFound
ShardOutcome = ShardResult | StopReason


def split_outcomes(outcomes: Iterable[ShardOutcome]) -> tuple[list[ShardResult], StopReason | None]:
    """Return the results, and why the first of the stopped shards stopped."""
    results: list[ShardResult] = []
    stop_reason: StopReason | None = None
    for outcome in outcomes:
        if isinstance(outcome, ShardResult):
            results.append(outcome)
        else:
            stop_reason = stop_reason or outcome
    return results, stop_reason
