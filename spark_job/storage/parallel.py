"""Applies a function to many files: in parallel on remote storage, sequentially where threads cost more than reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

_THREADS = 16
_INDEX_THREADS = 32

T = TypeVar("T")
R = TypeVar("R")


def is_remote(path: str) -> bool:
    """Return whether reading this path costs a network round trip."""
    scheme, colon, _ = path.partition("://")
    return bool(colon) and scheme != "file"


def map_parallel(
    call: Callable[[T], R], items: Sequence[T], sample_path: str, *, cpu_bound: bool = False
) -> list[R]:
    """Return `call(item)` for each item, in order.

    Uses threads if `sample_path`, the path of one of the files, is remote, or if the call is `cpu_bound`.
    """
    if len(items) < 2 or not (cpu_bound or is_remote(sample_path)):
        return [call(item) for item in items]
    return list(_pool().map(call, items))


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the pool, created on first use in the process that uses it."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="round-trips")


@cache
def range_pool() -> ThreadPoolExecutor:
    """Return the threads that read byte ranges of one file."""
    return ThreadPoolExecutor(_INDEX_THREADS, thread_name_prefix="ranges")


@cache
def segment_pool() -> ThreadPoolExecutor:
    """Return the threads that search segments. They wait for `range_pool`, so sharing one pool could deadlock."""
    return ThreadPoolExecutor(_INDEX_THREADS, thread_name_prefix="segments")
