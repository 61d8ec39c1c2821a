"""Ranges of a file: one after the other on a local disk, many at once where each costs a round trip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from pyiceberg.io import FileIO, InputStream

from spark_job.key_index.puffin import require_room, require_whole

_AT_ONCE = 32


def is_remote(path: str) -> bool:
    """Whether a read costs a round trip."""
    scheme, colon, _ = path.partition("://")
    return bool(colon) and scheme != "file"


@cache
def readers() -> ThreadPoolExecutor:
    """The threads that wait for storage; made in the process that needs them."""
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="ranges")


@cache
def askers() -> ThreadPoolExecutor:
    """The threads that ask segments; apart from the readers, for whom they wait."""
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="segments")


@dataclass(frozen=True)
class RangeReader:
    """Reads ranges (offset, length) of one file."""

    io: FileIO
    path: str
    stream: InputStream

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each range."""
        require_room(self.stream, self.path, max((sum(one) for one in ranges), default=0))
        if len(ranges) < 2 or not is_remote(self.path):
            return [self._whole(self._from_stream(*one), one) for one in ranges]
        read = self._at if isinstance(self.stream, pa.NativeFile) else self._from_own_stream
        found = readers().map(lambda one: read(*one), ranges)
        return [self._whole(data, one) for data, one in zip(found, ranges, strict=True)]

    def _from_stream(self, offset: int, length: int) -> bytes:
        self.stream.seek(offset)
        return self.stream.read(length)

    def _at(self, offset: int, length: int) -> bytes:
        """Arrow's files may be read at places by many threads."""
        data: bytes = self.stream.read_at(length, offset)  # type: ignore[attr-defined]
        return data

    def _from_own_stream(self, offset: int, length: int) -> bytes:
        with self.io.new_input(self.path).open() as stream:
            stream.seek(offset)
            return stream.read(length)

    def _whole(self, data: bytes, wanted: tuple[int, int]) -> bytes:
        return require_whole(self.path, wanted[1], data)


@contextmanager
def open_ranges(io: FileIO, path: str) -> Iterator[RangeReader]:
    """A file to read ranges of."""
    with io.new_input(path).open() as stream:
        yield RangeReader(io, path, stream)
