"""Simulates the process of a merge: crash points that pause or kill it, and restarts with empty caches."""

from __future__ import annotations

import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partialmethod
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq

from spark_job import pipeline
from spark_job.commit import commit_slice, next_root
from spark_job.index import (
    blocks,
    lookup,
    plan_index_merge,
    scan,
    segment,
    segment_cache,
    tiers,
    write_segment,
)
from spark_job.maintenance import choose_files, compact, index_foreign_writes
from spark_job.merge import slice_work
from spark_job.storage import file_cache
from spark_job.storage.file_cache import clear_file_caches
from tests.sim.crash_points import CREATE_POINTS, SLICE_POINTS
from tests.sim.engine.setting import Setting

_WITH_BLOCKS = (blocks, lookup, scan, segment, write_segment)
_SMALL_CACHE = 4  # entries of each cache, in a quarter of the seeds
MERGE_POINTS = (
    *CREATE_POINTS,
    "segments-rebuilt",
    "foreign-writes-indexed",
    "index-merged",
    *SLICE_POINTS,
    "delete-expired",
    "expired-deleted",
)


class CrashPoints:
    """Records the crash points that a merge passes, and calls `act` once at the expected one."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self._name, self._left = "", 0
        self._act: Callable[[str], None] | None = None

    def expect(self, name: str, occurrence: int, act: Callable[[str], None] | None) -> None:
        """Call `act` when this point is passed for the given time, counted from 1."""
        self.passed, self._name, self._left, self._act = [], name, occurrence, act

    def expect_nothing(self) -> None:
        """Expect no point."""
        self.expect("", 0, None)

    def crash_point(self, name: str) -> None:
        """Replace the product's `crash_point`."""
        self.passed.append(name)
        self._left -= name == self._name
        if self._act is not None and name == self._name and self._left <= 0:
            act, self._act = self._act, None
            act(name)


class _Inline:
    """A pool that runs everything in this thread: fast and deterministic."""

    def __init__(self, _workers: int, **_named: object) -> None: ...

    def __enter__(self) -> _Inline:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done

    def map(self, call: Callable[..., Any], *columns: Any) -> list[Any]:
        return [call(*row) for row in zip(*columns, strict=False)]


def restart() -> None:
    """Simulate a new process with empty caches."""
    clear_file_caches()


class Clock:
    """A wall clock that is wrong by up to an hour in either direction."""

    def __init__(self, dice: random.Random) -> None:
        self._dice, self._now = dice, 1_800_000_000.0

    def time(self) -> float:
        self._now += 1
        return self._now + self._dice.uniform(-3600, 3600)

    def perf_counter(self) -> float:
        return time.perf_counter()


@contextmanager
def patched_product(setting: Setting, points: CrashPoints, seed: int) -> Iterator[None]:
    """Set up the product for a seed: crash points, no threads, known identifiers, small sizes."""
    dice = random.Random(seed)
    clock = Clock(random.Random(seed + 1))
    with ExitStack() as stack:

        def set_to(module: object, name: str, value: object) -> None:
            stack.enter_context(patch.object(module, name, value))

        for name in (
            "read",
            "read_row_group",
            "read_row_groups",
        ):  # threads cost more than they save on tiny tables
            set_to(pq.ParquetFile, name, partialmethod(getattr(pq.ParquetFile, name), use_threads=False))

        for module in [loaded for name, loaded in sys.modules.items() if name.startswith("spark_job.")]:
            for name, value in (("crash_point", points.crash_point), ("ThreadPoolExecutor", _Inline)):
                if hasattr(module, name):
                    set_to(module, name, value)
        for module in _WITH_BLOCKS:
            set_to(module, "BLOCK_ROWS", setting.block_rows)
        for module in (commit_slice, next_root, index_foreign_writes, compact, pipeline, slice_work):
            set_to(module, "time", clock)
        set_to(uuid, "uuid4", lambda: uuid.UUID(int=dice.getrandbits(128), version=4))
        set_to(choose_files, "FAN_IN", setting.data_fan_in)
        set_to(choose_files, "_MAX_FILES", setting.data_most)
        set_to(tiers, "FAN_IN", setting.fan_in)
        set_to(tiers, "_TIER_0_ENTRIES", setting.smallest_tier)
        set_to(tiers, "_MIN_REWRITTEN_ENTRIES", setting.least_work)
        set_to(tiers, "_REWRITTEN_PER_ADDED_ENTRY", 1)
        set_to(plan_index_merge, "MAX_STEP_ENTRIES", setting.step_entries)
        for limit in (
            ("_ALWAYS_CACHED_BYTES", "_MAX_CACHED_BYTES") if seed % 2 else ()
        ):  # segments are read by block
            set_to(segment_cache, limit, 0)
        for cache in list(file_cache._caches) if seed % 4 == 1 else ():
            set_to(cache, "_max_weight", _SMALL_CACHE)
        restart()
        yield
    restart()
