"""The engine on Spark: one task, or a shuffle of events without their rows to one task per key range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from icemirror.errors import BadConfig, CommitUnknown, Conflict, Corrupt, IcemirrorError, Invalid, Transient
from spark_job.changelog.event_batch import EventBatch, concat_events
from spark_job.columns.arrays import U64
from spark_job.engine.key_ranges import cut_by_key, group_files_by_events, shard_bounds
from spark_job.engine.size_policy import MERGES, Sharded, SizePolicy, WorkSize
from spark_job.engine.work import Result, ShardOutput, Work, run_in_one_shard
from spark_job.index.damaged_segment import DamagedSegment
from spark_job.index.merge_segments import MergedStep, merged_paths, run_index_merge
from spark_job.index.plan_index_merge import IndexMerge
from spark_job.storage.discard import discard
from spark_job.storage.translate_errors import translate_errors

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True)
class TaskFailure:
    """An icemirror error, pickled from a task to the driver; Spark itself would pass only its text."""

    name: str
    arguments: tuple[str, ...]

    @classmethod
    def from_error(cls, error: IcemirrorError) -> TaskFailure:
        """Return the parts of an error that are pickled. A subclass becomes its nearest listed class."""
        names = [base.__name__ for base in type(error).__mro__ if base.__name__ in ERRORS_BY_NAME]
        return cls(names[0] if names else type(error).__name__, tuple(map(str, error.args)))

    def error(self) -> IcemirrorError:
        """Return the error, recreated on the driver."""
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
    """Runs work on a Spark context: in one task, or sharded, by the size policy."""

    context: SparkContext
    policy: SizePolicy = MERGES

    def run(self, work: Work[Result]) -> list[Result]:
        """Return the results of the shards, or raise the first error."""
        outcomes: list[Result | TaskFailure]
        match self.policy.where_to_run(WorkSize.measure(work)):
            case Sharded(shards=min_shards):
                with translate_errors():
                    shards = work.limit_shards(max(self.context.defaultParallelism, min_shards))
                outcomes = self._run_sharded(work, shards) if shards > 1 else self._run_in_one_task(work)
            case _:
                outcomes = self._run_in_one_task(work)
        return _raise_failures(work, outcomes)

    def merge_index(self, merge: IndexMerge) -> list[MergedStep]:
        """Return the merged steps of the runs of an index; each step is one task."""
        merges = [replace(merge, steps=(step,)) for step in merge.steps]
        outcomes = self.context.parallelize(merges, len(merges)).map(_merge_index_steps).collect()
        results = [step for outcome in outcomes if isinstance(outcome, list) for step in outcome]
        for outcome in outcomes:
            if isinstance(outcome, TaskFailure):
                discard(merge.io, merged_paths(results))
                raise outcome.error()
        return results

    def _run_in_one_task(self, work: Work[Result]) -> list[Result | TaskFailure]:
        return self.context.parallelize([work], 1).map(_run_one_task).collect()

    def _run_sharded(self, work: Work[Result], shards: int) -> list[Result | TaskFailure]:
        with translate_errors():
            bounds = shard_bounds(work, shards)
        broadcast_work = self.context.broadcast(work)
        groups = group_files_by_events(work, shards)  # as many as shards, so that neither side holds more
        try:
            return (
                self.context.parallelize(groups, len(groups))
                .flatMap(lambda ordinals: _scatter(broadcast_work.value, ordinals, bounds))
                .partitionBy(shards, lambda shard: shard)
                .mapPartitions(lambda pairs: _gather(broadcast_work.value, pairs))
                .collect()
            )
        finally:
            broadcast_work.unpersist()


def _run_one_task(work: Work[Result]) -> Result | TaskFailure:
    try:
        with translate_errors():
            return run_in_one_shard(work)
    except IcemirrorError as error:
        return TaskFailure.from_error(error)


def _merge_index_steps(merge: IndexMerge) -> list[MergedStep] | TaskFailure:
    try:
        with translate_errors():
            return run_index_merge(merge)
    except IcemirrorError as error:
        return TaskFailure.from_error(error)


def _scatter(
    work: Work[ShardOutput], ordinals: range, bounds: U64
) -> Iterator[tuple[int, EventBatch | TaskFailure]]:
    """Yield (shard, its events) of some files: the map side. Rows are not shuffled."""
    try:
        with translate_errors():
            shard_events = cut_by_key(work.read(ordinals), bounds)
    except IcemirrorError as error:
        yield 0, TaskFailure.from_error(error)
        return
    yield from ((shard, events) for shard, events in enumerate(shard_events) if len(events))


def _gather(
    work: Work[Result], pairs: Iterable[tuple[int, EventBatch | TaskFailure]]
) -> Iterator[Result | TaskFailure]:
    """Yield the result of one key range, of which all events have arrived: the reduce side."""
    received: list[EventBatch] = []
    for _, events in pairs:
        if isinstance(events, TaskFailure):
            yield events
            return
        received.append(events)
    if not received:
        return
    try:
        with translate_errors():
            yield work.run_shard(lambda: concat_events(received))
    except IcemirrorError as error:
        yield TaskFailure.from_error(error)


def _raise_failures(work: Work[Result], outcomes: list[Result | TaskFailure]) -> list[Result]:
    results = [outcome for outcome in outcomes if not isinstance(outcome, TaskFailure)]
    for outcome in outcomes:
        if isinstance(outcome, TaskFailure):
            discard(work.output_io, [path for result in results for path in result.paths])
            raise outcome.error()
    return results
