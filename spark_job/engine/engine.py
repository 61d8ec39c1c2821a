"""Runs the shards of a slice: in this process, or on an engine that starts when work is too large for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from icemirror.errors import IcemirrorError
from spark_job.engine import size_policy
from spark_job.engine.interrupt import was_interrupted
from spark_job.engine.key_ranges import cut_by_key, shard_bounds
from spark_job.engine.size_policy import MERGES, InProcess, SizePolicy, WorkSize
from spark_job.engine.work import Result, Work
from spark_job.index.index_merge import IndexMerge, merged_paths, run_index_merge
from spark_job.index.merge_segments import MergedPiece
from spark_job.storage.discard import discard, discard_on_error
from spark_job.storage.translate_errors import translate_errors

Output = TypeVar("Output")


class Engine(Protocol):
    """Runs work in shards; see `SparkEngine` and `InProcessEngine`."""

    def run(self, work: Work[Result]) -> list[Result]:
        """Return the results of the shards, or raise the first error."""

    def merge_index(self, merge: IndexMerge) -> list[MergedPiece]:
        """Merge runs of the index; return the merged pieces."""


@dataclass(frozen=True)
class InProcessEngine:
    """Runs work without Spark, in one shard; tests use more."""

    shards: int = 1

    def run(self, work: Work[Result]) -> list[Result]:
        """Return the results of the shards, run one after the other."""
        everything = range(len(work.files))
        if self.shards == 1:
            return [work.merge(lambda: work.read(everything))]
        parts = cut_by_key(work.read(everything), shard_bounds(work, self.shards))
        results: list[Result] = []
        with discard_on_error(work.target) as written:
            for part in filter(len, parts):
                results += [work.merge(lambda part=part: part)]  # type: ignore[misc]  # bound now
                written += results[-1].paths
        return results

    def merge_index(self, merge: IndexMerge) -> list[MergedPiece]:
        """Merge runs of the index in this process."""
        return run_index_merge(merge)


class LazyEngine:
    """An engine that starts for the first work which the size policy does not run in this process.

    `start_seconds` adds up the starts, which a merge's duration excludes.
    """

    def __init__(self, start: Callable[[], Engine], policy: SizePolicy = MERGES) -> None:
        self._start, self._policy = start, policy
        self._engine: Engine | None = None
        self.start_seconds = 0.0

    def run(self, work: Work[Result]) -> list[Result]:
        """Return the results of the shards."""
        if isinstance(self._policy.where_to_run(WorkSize.of(work)), InProcess):
            return [work.merge(lambda: work.read(range(len(work.files))))]
        return self._run_on_engine(lambda engine: engine.run(work))

    def merge_index(self, merge: IndexMerge) -> list[MergedPiece]:
        """Merge runs of the index on the engine."""
        return self._run_on_engine(lambda engine: engine.merge_index(merge))

    def _run_on_engine(self, run: Callable[[Engine], list[Output]]) -> list[Output]:
        """Run on the started engine. After an unexpected error, the next call starts a new engine."""
        try:
            return run(self._started())
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


def run_small_in_process(engine: Engine, work: Work[Result]) -> list[Result]:
    """Run inspection work in this process if it is small, else on the engine."""
    placement = size_policy.INSPECTION.where_to_run(WorkSize.of(work))
    return (InProcessEngine() if isinstance(placement, InProcess) else engine).run(work)


@contextmanager
def index_merge_alongside(engine: Engine, merge: IndexMerge) -> Iterator[Callable[[], list[MergedPiece]]]:
    """Merge runs of the index while the body runs a slice; a small merge runs concurrently, in this process.

    Yields a function that waits for the merged pieces. Deletes their files if the body fails.
    """
    is_small = merge.entries <= MERGES.index_merge_entries
    with ThreadPoolExecutor(1) as pool:
        concurrent = pool.submit(run_index_merge, merge) if is_small and merge.pieces else None

        def merged_pieces() -> list[MergedPiece]:
            if not merge.pieces:
                return []
            with translate_errors():
                return concurrent.result() if concurrent else engine.merge_index(merge)

        try:
            yield merged_pieces
        except BaseException:
            if concurrent and concurrent.exception() is None:
                discard(merge.io, merged_paths(concurrent.result()))
            raise
