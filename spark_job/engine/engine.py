"""Runs work in this process, or starts Spark for large work."""

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
from spark_job.engine.work import Result, Work, run_in_one_shard
from spark_job.index.merge_segments import MergedStep, merged_paths, run_index_merge
from spark_job.index.plan_index_merge import IndexMerge
from spark_job.storage.discard import discard, discard_on_error
from spark_job.storage.translate_errors import translate_errors

Output = TypeVar("Output")


class Engine(Protocol):
    """Runs work in shards; see `SparkEngine` and `InProcessEngine`."""

    def run(self, work: Work[Result]) -> list[Result]:
        """Return the results of the shards, or raise the first error."""

    def merge_index(self, merge: IndexMerge) -> list[MergedStep]:
        """Return the merged steps of the runs of an index."""


@dataclass(frozen=True)
class InProcessEngine:
    """Runs work without Spark, in one shard; tests use more."""

    shards: int = 1

    def run(self, work: Work[Result]) -> list[Result]:
        """Return the results of the shards, run one after the other."""
        if self.shards == 1:
            return [run_in_one_shard(work)]
        shard_events = cut_by_key(work.read(range(len(work.files))), shard_bounds(work, self.shards))
        results: list[Result] = []
        with discard_on_error(work.output_io) as written:
            for events in filter(len, shard_events):
                results += [work.run_shard(lambda events=events: events)]  # type: ignore[misc]  # bound now
                written += results[-1].paths
        return results

    def merge_index(self, merge: IndexMerge) -> list[MergedStep]:
        """Return the merged steps of the runs of an index."""
        return run_index_merge(merge)


class LazyEngine:
    """Runs small work in this process, and starts an engine for the first work that is too large for it.

    `start_seconds`: the total time of all starts, which a merge's duration excludes.
    """

    def __init__(self, open_engine: Callable[[], Engine], policy: SizePolicy = MERGES) -> None:
        self._open_engine, self._policy = open_engine, policy
        self._engine: Engine | None = None
        self.start_seconds = 0.0

    def run(self, work: Work[Result]) -> list[Result]:
        """Return the results of the shards."""
        if isinstance(self._policy.where_to_run(WorkSize.measure(work)), InProcess):
            return [run_in_one_shard(work)]
        return self._run_on_engine(lambda engine: engine.run(work))

    def merge_index(self, merge: IndexMerge) -> list[MergedStep]:
        """Return the merged steps of the runs of an index, merged on the engine."""
        return self._run_on_engine(lambda engine: engine.merge_index(merge))

    def _run_on_engine(self, run: Callable[[Engine], list[Output]]) -> list[Output]:
        """Return the results of the started engine. After an unexpected error, the next call starts a new engine."""
        try:
            return run(self._start_engine())
        except Exception as error:
            if was_interrupted():
                raise KeyboardInterrupt from error
            if not isinstance(error, IcemirrorError):
                self._engine = None
            raise

    def _start_engine(self) -> Engine:
        if self._engine is None:
            began = time.perf_counter()
            self._engine = self._open_engine()
            self.start_seconds += time.perf_counter() - began
        return self._engine


def run_inspection(engine: Engine, work: Work[Result]) -> list[Result]:
    """Return the results of the shards, run in this process up to the limits of inspections, else on the engine."""
    placement = size_policy.INSPECTION.where_to_run(WorkSize.measure(work))
    return (InProcessEngine() if isinstance(placement, InProcess) else engine).run(work)


@contextmanager
def index_merge_in_background(
    engine: Engine, merge: IndexMerge, policy: SizePolicy = MERGES
) -> Iterator[Callable[[], list[MergedStep]]]:
    """Yield a function that returns the merged steps of the index.

    A small merge runs in a thread of this process while the body runs a slice; the function waits for it. A large one
    runs on the engine when the function is called. The files of a small merge are deleted if the body fails.
    """
    is_small = merge.entries <= policy.index_merge_entries
    with ThreadPoolExecutor(1) as pool:
        background_merge = pool.submit(run_index_merge, merge) if is_small and merge.steps else None

        def merged_steps() -> list[MergedStep]:
            if not merge.steps:
                return []
            with translate_errors():
                return background_merge.result() if background_merge else engine.merge_index(merge)

        try:
            yield merged_steps
        except BaseException:
            if background_merge and background_merge.exception() is None:
                discard(merge.io, merged_paths(background_merge.result()))
            raise
