"""A cache for what is read from files that never change: the path alone identifies the content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")

_every: WeakSet[ReadOnce[Any]] = WeakSet()  # of whatever they hold


class ReadOnce(Generic[T]):
    """Remembers the most recently used contents by path, as many as weigh at most `most` together."""

    def __init__(self, most: int, weigh: Callable[[T], int] = lambda _: 1) -> None:
        self._most, self._weigh = most, weigh
        self._contents: OrderedDict[str, T] = OrderedDict()
        self._weight = 0
        self._lock = Lock()
        _every.add(self)

    def get(self, path: str, read: Callable[[], T]) -> T:
        """The content of `path`, read by `read` if it is not remembered."""
        found = self.find(path)
        if found is None:
            found = read()
            self.put(path, found)
        return found

    def find(self, path: str) -> T | None:
        """What is remembered of `path`."""
        with self._lock:
            if path in self._contents:
                self._contents.move_to_end(path)
            return self._contents.get(path)

    def put(self, path: str, content: T) -> None:
        """Remembers what is in a file without reading it, as whoever has written it may."""
        with self._lock:
            if path in self._contents:
                self._weight -= self._weigh(self._contents[path])
            self._contents[path] = content
            self._contents.move_to_end(path)
            self._weight += self._weigh(content)
            while self._weight > self._most and self._contents:
                self._weight -= self._weigh(self._contents.popitem(last=False)[1])

    def forget(self) -> None:
        """Remembers nothing any more."""
        with self._lock:
            self._contents.clear()
            self._weight = 0


def forget_everything() -> None:
    """All caches as a new process has them."""
    for cache in _every:
        cache.forget()
