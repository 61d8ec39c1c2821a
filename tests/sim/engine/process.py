"""The merge as one process of many: it can be stopped at its named points, die there, and start again forgetful."""

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

from spark_job import commit_slice, merge_slice, pipeline
from spark_job.compaction import choose, compact
from spark_job.files import immutable
from spark_job.files.immutable import forget_everything
from spark_job.index_upkeep import catch_up
from spark_job.key_index import blocks, compaction, lookup, scan, segment, tiers, whole
from tests.sim.engine.setting import Setting

_WITH_BLOCKS = (blocks, lookup, scan, segment)
_FEW = 4  # that are remembered, in a quarter of the seeds


NAMES = (
    "create-mirror",
    "mirror-created",
    "healed",
    "caught-up",
    "index-merged",
    "write-data",
    "data-written",
    "segment-written",
    "write-deletes",
    "deletes-written",
    "root-written",
    "commit",
    "committed",
    "delete-expired",
    "expired-deleted",
)


COMPACTION_NAMES = ("write-moved", "moved-written", "moved-indexed")


class Points:
    """Knows the points that were passed; `act` is called once, at the one that was asked for."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self._name, self._left = "", 0
        self._act: Callable[[str], None] | None = None

    def expect(self, name: str, time: int, act: Callable[[str], None] | None) -> None:
        """Act when this point is passed so many times from now."""
        self.passed, self._name, self._left, self._act = [], name, time, act

    def expect_nothing(self) -> None:
        """Let all pass."""
        self.expect("", 0, None)

    def reach(self, name: str) -> None:
        """Stands in for the product's own."""
        self.passed.append(name)
        self._left -= name == self._name
        if self._act is not None and name == self._name and self._left <= 0:
            act, self._act = self._act, None
            act(name)


class _Inline:
    """A pool that does everything at once, in this thread: quick, and the same every time."""

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
    """Another process, which remembers nothing of the files."""
    forget_everything()


class Clock:
    """Wall time as machines have it: up to an hour off, now this way, now that."""

    def __init__(self, dice: random.Random) -> None:
        self._dice, self._now = dice, 1_800_000_000.0

    def time(self) -> float:
        self._now += 1
        return self._now + self._dice.uniform(-3600, 3600)

    def perf_counter(self) -> float:
        return time.perf_counter()


@contextmanager
def stage(setting: Setting, points: Points, seed: int) -> Iterator[None]:
    """Everything around the product that a seed needs: points, no threads, known identifiers, small sizes."""
    dice = random.Random(seed)
    clock = Clock(random.Random(seed + 1))
    with ExitStack() as stack:

        def set_to(module: object, name: str, value: object) -> None:
            stack.enter_context(patch.object(module, name, value))

        for name in ("read", "read_row_group", "read_row_groups"):  # the tables are tiny
            set_to(pq.ParquetFile, name, partialmethod(getattr(pq.ParquetFile, name), use_threads=False))

        for module in [one for name, one in sys.modules.items() if name.startswith("spark_job.")]:
            for name, value in (("reach", points.reach), ("ThreadPoolExecutor", _Inline)):
                if hasattr(module, name):
                    set_to(module, name, value)
        for module in _WITH_BLOCKS:
            set_to(module, "BLOCK_ROWS", setting.block_rows)
        for module in (commit_slice, catch_up, compact, merge_slice, pipeline):
            set_to(module, "time", clock)
        set_to(uuid, "uuid4", lambda: uuid.UUID(int=dice.getrandbits(128), version=4))
        set_to(choose, "FAN_IN", setting.data_fan_in)
        set_to(choose, "_MOST_FILES", setting.data_most)
        set_to(tiers, "FAN_IN", setting.fan_in)
        set_to(tiers, "_SMALLEST_TIER", setting.smallest_tier)
        set_to(tiers, "_LEAST_WORK", setting.least_work)
        set_to(tiers, "_WORK_FOR_ENTRY", 1)
        for module in (tiers, compaction):
            set_to(module, "PIECE_ENTRIES", setting.piece_entries)
        for limit in (
            ("_SMALL_BYTES", "_LARGE_BYTES") if seed % 2 else ()
        ):  # segments are asked by their blocks
            set_to(whole, limit, 0)
        for cache in list(immutable._every) if seed % 4 == 1 else ():
            set_to(cache, "_most", _FEW)
        restart()
        yield
    restart()
