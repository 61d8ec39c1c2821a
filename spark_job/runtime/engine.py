"""How a slice runs: in this process if it is little, in one Spark task, or sharded by key range if it is large."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from icemirror.errors import BadConfig, CommitUnknown, Conflict, Corrupt, IcemirrorError, Invalid, Transient
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes, concat_changes
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.distinct import distinct
from spark_job.doubtful import NeedsHistory
from spark_job.files.discard import discard
from spark_job.files.written import written_before_commit
from spark_job.iceberg.failures import named
from spark_job.key_index.codec import Encoding
from spark_job.key_index.compaction import MergedPiece
from spark_job.key_index.damage import DamagedSegment
from spark_job.key_index.index_merge import IndexMerge, merged_paths, run_merge
from spark_job.key_index.keys import U64, Keys
from spark_job.lost_track import SourceTruncated
from spark_job.runtime.interrupt import was_interrupted
from spark_job.runtime.work import Done, Result, Work

if TYPE_CHECKING:
    from pyspark import SparkContext

# Up to here one task is quicker than a shuffle on a small machine, and its memory stays small.
_ONE_TASK_EVENTS = 1_000_000
_ONE_TASK_BYTES = 64 << 20
# Every shard reads the changelog files that hold its keys, often all of them: few large shards are cheaper.
_SHARD_EVENTS = 2_000_000
_SHARD_BYTES = 96 << 20
# So much is done quicker than a task starts.
_LITTLE_INDEX_ENTRIES = 1_000_000
_LITTLE_BYTES = 8 << 20
_BYTES_OF_EVENT = 16
_SAMPLE_FILES = 8
_SAMPLE_KEYS = 1000


Answer = TypeVar("Answer")


class Engine(Protocol):
    """Runs the shards of a slice."""

    def run(self, work: Work[Result]) -> list[Result]:
        """The results of the shards, or the first named error."""

    def merge_index(self, merge: IndexMerge) -> list[MergedPiece]:
        """Merges runs of the index; what each piece became."""


class LazyEngine:
    """An engine that starts when it is first needed. `start_seconds` is no part of what a merge took.

    Work of fewer events than `from_events` is done in this process.
    """

    def __init__(self, start: Callable[[], Engine], from_events: int = 0) -> None:
        self._start, self._from_events = start, from_events
        self._engine: Engine | None = None
        self.start_seconds = 0.0

    def run(self, work: Work[Result]) -> list[Result]:
        """The results of the shards, after a start if need be."""
        return InProcess().run(work) if self._is_little(work) else self._ask(lambda engine: engine.run(work))

    def _is_little(self, work: Work[Result]) -> bool:
        files = (*work.files, *work.background)
        size = sum(file.bytes for file in files)
        return sum(map(_events, files)) < self._from_events and size <= _LITTLE_BYTES

    def merge_index(self, merge: IndexMerge) -> list[MergedPiece]:
        """Merges runs of the index, after a start if need be."""
        return self._ask(lambda engine: engine.merge_index(merge))

    def _ask(self, ask: Callable[[Engine], list[Answer]]) -> list[Answer]:
        """What the engine answers. One that fails without a name may be dead: the next work gets a new one."""
        try:
            return ask(self._started())
        except Exception as error:
            if was_interrupted():
                raise KeyboardInterrupt from error
            if not isinstance(error, IcemirrorError):
                self._engine = None
            raise

    def _started(self) -> Engine:
        if self._engine is None:
            began = time.perf_counter()
            self._engine = self._start()
            self.start_seconds += time.perf_counter() - began
        return self._engine


def run_beside(
    engine: Engine, work: Work[Result] | None, merge: IndexMerge
) -> tuple[list[Result], list[MergedPiece]]:
    """Runs a slice, and what is to be merged of the index: beside it, in this process, where that is little."""
    little = merge.entries <= _LITTLE_INDEX_ENTRIES
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run_merge, merge) if little and merge.pieces else None
        shards: list[Result] = []
        merged: list[MergedPiece] = []
        try:
            shards = engine.run(work) if work else []
            with named():
                if merge.pieces:
                    merged = waiting.result() if waiting else engine.merge_index(merge)
        except BaseException:
            if waiting and waiting.exception() is None:
                merged = waiting.result()
            discard(merge.io, [path for shard in shards for path in shard.paths])
            discard(merge.io, merged_paths(merged))
            raise
    return shards, merged


@dataclass(frozen=True)
class Failure:
    """A named error on its way from a task to the driver; Spark would turn it into text."""

    name: str
    arguments: tuple[str, ...]

    @classmethod
    def of(cls, error: IcemirrorError) -> Failure:
        """What can be sent of an error."""
        return cls(type(error).__name__, tuple(map(str, error.args)))

    def error(self) -> IcemirrorError:
        """The error again."""
        return _NAMED.get(self.name, Transient)(*self.arguments)


_NAMED = {
    error.__name__: error
    for error in (
        Transient,
        Conflict,
        CommitUnknown,
        Invalid,
        Corrupt,
        BadConfig,
        DamagedSegment,
        NeedsHistory,
        SourceTruncated,
    )
}


@dataclass(frozen=True)
class InProcess:
    """Without Spark: how small slices are merged, in one shard; tests ask for more."""

    shards: int = 1

    def run(self, work: Work[Result]) -> list[Result]:
        """Runs the work in this process, in as many shards as told."""
        everything = range(len(work.files))
        if self.shards == 1:
            return [work.merge(lambda: work.read(everything))]
        parts = cut_by_key(work.read(everything), shard_bounds(work, self.shards))
        done: list[Result] = []
        with written_before_commit(work.target) as written:
            for part in filter(len, parts):
                done += [work.merge(lambda part=part: part)]  # type: ignore[misc]  # bound now
                written += done[-1].paths
        return done

    def merge_index(self, merge: IndexMerge) -> list[MergedPiece]:
        """Merges runs of the index in this process."""
        return run_merge(merge)


@dataclass(frozen=True)
class OnSpark:
    """On a Spark context, in one task or sharded, by the size of the slice."""

    context: SparkContext
    one_task_events: int = _ONE_TASK_EVENTS
    one_task_bytes: int = _ONE_TASK_BYTES

    def run(self, work: Work[Result]) -> list[Result]:
        """Runs the work on Spark."""
        events = sum(file.events for file in work.files)
        size = sum(file.bytes for file in work.files)
        if events <= self.one_task_events and size <= self.one_task_bytes:
            outcomes = self._one_task(work)
        else:
            by_size = max(math.ceil(events / _SHARD_EVENTS), math.ceil(size / _SHARD_BYTES))
            with named():
                shards = work.most_shards(max(self.context.defaultParallelism, by_size))
            outcomes = self._sharded(work, shards) if shards > 1 else self._one_task(work)
        return _raise_failures(work, outcomes)

    def merge_index(self, merge: IndexMerge) -> list[MergedPiece]:
        """Merges runs of the index on Spark, a task for each piece."""
        merges = [replace(merge, pieces=(piece,)) for piece in merge.pieces]
        outcomes = self.context.parallelize(merges, len(merges)).map(_merge_piece).collect()
        done = [piece for outcome in outcomes if isinstance(outcome, list) for piece in outcome]
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                discard(merge.io, merged_paths(done))
                raise outcome.error()
        return done

    def _one_task(self, work: Work[Result]) -> list[Result | Failure]:
        return self.context.parallelize([work], 1).map(_merge_all).collect()

    def _sharded(self, work: Work[Result], shards: int) -> list[Result | Failure]:
        with named():
            bounds = shard_bounds(work, shards)
        shared = self.context.broadcast(work)
        groups = _file_groups(work, shards)  # as many as shards, so that neither side holds more
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


def _merge_all(work: Work[Result]) -> Result | Failure:
    try:
        with named():
            return work.merge(lambda: work.read(range(len(work.files))))
    except IcemirrorError as error:
        return Failure.of(error)


def _merge_piece(merge: IndexMerge) -> list[MergedPiece] | Failure:
    try:
        with named():
            return run_merge(merge)
    except IcemirrorError as error:
        return Failure.of(error)


def _scatter(work: Work[Done], ordinals: range, bounds: U64) -> Iterator[tuple[int, Changes | Failure]]:
    """Map side: the narrow columns of some files, cut by key range. Nothing else is shuffled."""
    try:
        with named():
            parts = cut_by_key(work.read(ordinals), bounds)
    except IcemirrorError as error:
        yield 0, Failure.of(error)
        return
    yield from ((shard, part) for shard, part in enumerate(parts) if len(part))


def _gather(work: Work[Result], pairs: Iterable[tuple[int, Changes | Failure]]) -> Iterator[Result | Failure]:
    """Reduce side: everything about a key range is here."""
    parts: list[Changes] = []
    for _, part in pairs:
        if isinstance(part, Failure):
            yield part
            return
        parts.append(part)
    if not parts:
        return
    try:
        with named():
            yield work.merge(lambda: concat_changes(parts))
    except IcemirrorError as error:
        yield Failure.of(error)


def _raise_failures(work: Work[Result], outcomes: list[Result | Failure]) -> list[Result]:
    done = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            discard(work.target, [path for result in done for path in result.paths])
            raise outcome.error()
    return done


def _events(file: ChangeFile) -> int:
    """Where nobody counted them, by the bytes."""
    return file.events or file.bytes // _BYTES_OF_EVENT


def _file_groups(work: Work[Done], groups: int) -> list[range]:
    """Runs of neighbouring files with about the same number of events; what has none counts by its bytes."""
    events = np.cumsum([_events(file) for file in work.files])
    cuts = np.searchsorted(events, np.linspace(0, events[-1], groups + 1)[1:-1], side="left") + 1
    edges = distinct(np.clip(np.concatenate([[0], cuts, [len(work.files)]]), 0, len(work.files)))
    return [range(int(start), int(end)) for start, end in pairwise(edges)]


def shard_bounds(work: Work[Done], shards: int) -> U64:
    """Where each shard but the first begins, on the leading 64 bits of the key; nowhere if there are no keys."""
    if work.codec.encoding is Encoding.HASHED:
        return np.array([(number << 64) // shards for number in range(1, shards)], dtype=np.uint64)
    files = [file for file in work.files if file.events]
    if not files:
        return np.empty(0, dtype=np.uint64)
    step = max(1, len(files) // _SAMPLE_FILES)
    sample = np.sort(np.concatenate([_sample_keys(work, file) for file in files[::step]]))
    if not len(sample):
        return np.empty(0, dtype=np.uint64)
    return sample[[len(sample) * number // shards for number in range(1, shards)]]


def _sample_keys(work: Work[Done], file: ChangeFile) -> U64:
    """Some keys of one file, spread evenly over its middle row group."""
    io, key_ids = work.source(file)
    with open_parquet(io, file.path) as parquet:
        middle = parquet.num_row_groups // 2
        columns = read_columns(parquet, file.path, key_ids, [middle])
    every = pa.array(np.arange(0, len(columns[0]), max(1, len(columns[0]) // _SAMPLE_KEYS)))
    # A NULL key is refused, or rejected, by whoever reads all of them.
    some = [column.take(every).drop_null() for column in columns]
    return _leading(work.codec.encode(some)) if len(some[0]) else np.empty(0, dtype=np.uint64)


def cut_by_key(changes: Changes, bounds: U64) -> list[Changes]:
    """The changes of each shard, in their order."""
    shard = np.searchsorted(bounds, _leading(changes.keys), side="right").astype(np.uint16)
    order = np.argsort(shard, kind="stable")  # 16 bits: numpy sorts them by radix
    edges = np.searchsorted(shard[order], np.arange(len(bounds) + 2))
    return [changes.take(order[start:end]) for start, end in pairwise(edges)]


def _leading(keys: Keys) -> U64:
    return keys.lo if keys.hi is None else keys.hi
