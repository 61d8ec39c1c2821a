"""The same for many files: at once where each is a round trip, one after the other where a thread costs more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

_AT_ONCE = 16

T = TypeVar("T")
R = TypeVar("R")


def is_remote(path: str) -> bool:
    """Whether a read costs a round trip."""
    scheme, colon, _ = path.partition("://")
    return bool(colon) and scheme != "file"


def for_each(call: Callable[[T], R], items: Sequence[T], where: str, *, heavy: bool = False) -> list[R]:
    """What `call` gives for each of the items, whose files are where this path is; `heavy`: worth a thread anyway."""
    if len(items) < 2 or not (heavy or is_remote(where)):
        return [call(item) for item in items]
    return list(_waiting().map(call, items))


@cache
def _waiting() -> ThreadPoolExecutor:
    """The threads that wait for storage; made in the process that needs them."""
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="round-trips")
