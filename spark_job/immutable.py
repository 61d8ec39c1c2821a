"""A cache for what is read from files that never change: the path alone identifies the content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class ReadOnce(Generic[T]):
    """Remembers the most recently used contents by path."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._contents: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def get(self, path: str, read: Callable[[], T]) -> T:
        """The content of `path`, read by `read` if it is not remembered."""
        with self._lock:
            if path in self._contents:
                self._contents.move_to_end(path)
                return self._contents[path]
        content = read()
        with self._lock:
            self._contents[path] = content
            while len(self._contents) > self._most:
                self._contents.popitem(last=False)
        return content
