"""A cache for the content of immutable files: the path alone identifies the content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")

_caches: WeakSet[FileCache[Any]] = WeakSet()  # Any: each cache holds values of another type


class FileCache(Generic[T]):
    """Keeps the most recently used contents by path, up to a total weight of `max_weight`."""

    def __init__(self, max_weight: int, weigh: Callable[[T], int] = lambda _: 1) -> None:
        self._max_weight, self._weigh = max_weight, weigh
        self._contents: OrderedDict[str, T] = OrderedDict()
        self._weight = 0
        self._lock = Lock()
        _caches.add(self)

    def get(self, path: str, read: Callable[[], T]) -> T:
        """Return the content of `path`; call `read` if it is not cached."""
        content = self.find(path)
        if content is None:
            content = read()
            self.put(path, content)
        return content

    def find(self, path: str) -> T | None:
        """Return the cached content of `path`, or None."""
        with self._lock:
            if path in self._contents:
                self._contents.move_to_end(path)
            return self._contents.get(path)

    def put(self, path: str, content: T) -> None:
        """Cache the content of `path`, and evict the least recently used contents if the cache is full."""
        with self._lock:
            if path in self._contents:
                self._weight -= self._weigh(self._contents[path])
            self._contents[path] = content
            self._contents.move_to_end(path)
            self._weight += self._weigh(content)
            while self._weight > self._max_weight and self._contents:
                self._weight -= self._weigh(self._contents.popitem(last=False)[1])

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            self._contents.clear()
            self._weight = 0


def clear_file_caches() -> None:
    """Empty all caches, as in a new process."""
    for cache in _caches:
        cache.clear()
