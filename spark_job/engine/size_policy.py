"""Size limits: which work runs in this process, in one Spark task, or sharded by key range."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spark_job.engine.work import ShardOutput, Work, WorkFile

_BYTES_PER_EVENT = 16


def estimate_events(file: WorkFile) -> int:
    """Return the file's event count, estimated from its bytes where it is unknown."""
    return file.row_count or file.bytes // _BYTES_PER_EVENT


@dataclass(frozen=True, slots=True)
class WorkSize:
    """The size of some work. `read_events` and `read_bytes` include the files that every shard reads."""

    events: int
    bytes: int
    read_events: int
    read_bytes: int

    @classmethod
    def measure(cls, work: Work[ShardOutput]) -> WorkSize:
        """Return the size of some work: the sum of its files."""
        all_files = (*work.files, *work.shared_files)
        return cls(
            events=sum(file.row_count for file in work.files),
            bytes=sum(file.bytes for file in work.files),
            read_events=sum(map(estimate_events, all_files)),
            read_bytes=sum(file.bytes for file in all_files),
        )


@dataclass(frozen=True, slots=True)
class InProcess:
    """Run in this process: done before a Spark task would start."""


@dataclass(frozen=True, slots=True)
class OneTask:
    """Run in one Spark task, without a shuffle."""


@dataclass(frozen=True, slots=True)
class Sharded:
    """Run as Spark tasks, one per key range; `shards` is the fewest that keep each within its limits."""

    shards: int


Placement = InProcess | OneTask | Sharded


@dataclass(frozen=True, slots=True)
class SizePolicy:
    """The limits between small and large work."""

    # `job.spark_from_events`: from this many events on, work goes to Spark.
    spark_from_events: int = 0
    in_process_bytes: int = 8 << 20
    # Up to here one task is faster than a shuffle on a small machine, and its memory stays small.
    one_task_events: int = 1_000_000
    one_task_bytes: int = 64 << 20
    # Every shard reads the changelog files that contain its keys, often all of them: few large shards are cheaper.
    shard_events: int = 2_000_000
    shard_bytes: int = 96 << 20
    # An index merge of at most this many entries runs in this process, concurrently with the slice.
    index_merge_entries: int = 1_000_000

    def where_to_run(self, size: WorkSize) -> Placement:
        """Return where work of this size runs."""
        if size.read_events < self.spark_from_events and size.read_bytes <= self.in_process_bytes:
            return InProcess()
        if size.events <= self.one_task_events and size.bytes <= self.one_task_bytes:
            return OneTask()
        return Sharded(
            max(math.ceil(size.events / self.shard_events), math.ceil(size.bytes / self.shard_bytes))
        )


MERGES = SizePolicy()
"""Limits of merges, before the settings are applied."""

INSPECTION = SizePolicy(spark_from_events=2_000_001, in_process_bytes=256 << 20)
"""Limits of `adopt` and `verify`, which start Spark only for large tables."""
