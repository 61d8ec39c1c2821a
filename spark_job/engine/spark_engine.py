"""The engine on Spark: one task, or a shuffle of events without their rows to one task per key range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from icemirror.errors import BadConfig, CommitUnknown, Conflict, Corrupt, IcemirrorError, Invalid, Transient
from spark_job.changelog.changes import Changes, concat_changes
from spark_job.engine.key_ranges import cut_by_key, group_files_by_events, shard_bounds
from spark_job.engine.size_policy import MERGES, Sharded, SizePolicy, WorkSize
from spark_job.engine.work import Result, ShardOutput, Work
from spark_job.index.index_merge import IndexMerge, merged_paths, run_index_merge
from spark_job.index.keys import U64
from spark_job.index.merge_segments import MergedPiece
from spark_job.index.segment import DamagedSegment
from spark_job.storage.discard import discard
from spark_job.storage.translate_errors import translate_errors

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True)
class TaskFailure:
    """An icemirror error on its way from a task to the driver; Spark would turn it into text."""

    name: str
    arguments: tuple[str, ...]

    @classmethod
    def of(cls, error: IcemirrorError) -> TaskFailure:
        """Return the parts of an error that can be pickled."""
        return cls(type(error).__name__, tuple(map(str, error.args)))

    def error(self) -> IcemirrorError:
        """Recreate the error on the driver."""
        return ERRORS_BY_NAME.get(self.name, Transient)(*self.arguments)


ERRORS_BY_NAME = {
    error.__name__: error
    for error in (
        Transient,
        Conflict,
        CommitUnknown,
        Invalid,
        Corrupt,
        BadConfig,
        DamagedSegment,
    )
}


@dataclass(frozen=True)
class SparkEngine:
    """Runs work on a Spark context, in one task or sharded, as the size policy says."""

    context: SparkContext
    policy: SizePolicy = MERGES

    def run(self, work: Work[Result]) -> list[Result]:
        """Return the results of the shards, or raise the first error."""
        outcomes: list[Result | TaskFailure]
        match self.policy.where_to_run(WorkSize.of(work)):
            case Sharded(by_size):
                with translate_errors():
                    shards = work.limit_shards(max(self.context.defaultParallelism, by_size))
                outcomes = self._sharded(work, shards) if shards > 1 else self._one_task(work)
            case _:
                outcomes = self._one_task(work)
        return _raise_failures(work, outcomes)

    def merge_index(self, merge: IndexMerge) -> list[MergedPiece]:
        """Merge runs of the index, one task per piece."""
        merges = [replace(merge, pieces=(piece,)) for piece in merge.pieces]
        outcomes = self.context.parallelize(merges, len(merges)).map(_merge_piece).collect()
        results = [piece for outcome in outcomes if isinstance(outcome, list) for piece in outcome]
        for outcome in outcomes:
            if isinstance(outcome, TaskFailure):
                discard(merge.io, merged_paths(results))
                raise outcome.error()
        return results

    def _one_task(self, work: Work[Result]) -> list[Result | TaskFailure]:
        return self.context.parallelize([work], 1).map(_merge_all).collect()

    def _sharded(self, work: Work[Result], shards: int) -> list[Result | TaskFailure]:
        with translate_errors():
            bounds = shard_bounds(work, shards)
        shared = self.context.broadcast(work)
        groups = group_files_by_events(work, shards)  # as many as shards, so that neither side holds more
        try:
            return (
                self.context.parallelize(groups, len(groups))
                .flatMap(lambda ordinals: _scatter(shared.value, ordinals, bounds))
                .partitionBy(shards, lambda shard: shard)
                .mapPartitions(lambda parts: _gather(shared.value, parts))
                .collect()
            )
        finally:
            shared.unpersist()


def _merge_all(work: Work[Result]) -> Result | TaskFailure:
    try:
        with translate_errors():
            return work.merge(lambda: work.read(range(len(work.files))))
    except IcemirrorError as error:
        return TaskFailure.of(error)


def _merge_piece(merge: IndexMerge) -> list[MergedPiece] | TaskFailure:
    try:
        with translate_errors():
            return run_index_merge(merge)
    except IcemirrorError as error:
        return TaskFailure.of(error)


def _scatter(
    work: Work[ShardOutput], ordinals: range, bounds: U64
) -> Iterator[tuple[int, Changes | TaskFailure]]:
    """Map side: cut the events of some files by key range. Rows are not shuffled."""
    try:
        with translate_errors():
            parts = cut_by_key(work.read(ordinals), bounds)
    except IcemirrorError as error:
        yield 0, TaskFailure.of(error)
        return
    yield from ((shard, part) for shard, part in enumerate(parts) if len(part))


def _gather(
    work: Work[Result], pairs: Iterable[tuple[int, Changes | TaskFailure]]
) -> Iterator[Result | TaskFailure]:
    """Reduce side: merge one key range, of which all events have arrived."""
    parts: list[Changes] = []
    for _, part in pairs:
        if isinstance(part, TaskFailure):
            yield part
            return
        parts.append(part)
    if not parts:
        return
    try:
        with translate_errors():
            yield work.merge(lambda: concat_changes(parts))
    except IcemirrorError as error:
        yield TaskFailure.of(error)


def _raise_failures(work: Work[Result], outcomes: list[Result | TaskFailure]) -> list[Result]:
    results = [outcome for outcome in outcomes if not isinstance(outcome, TaskFailure)]
    for outcome in outcomes:
        if isinstance(outcome, TaskFailure):
            discard(work.target, [path for result in results for path in result.paths])
            raise outcome.error()
    return results
