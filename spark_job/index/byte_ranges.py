"""Reads byte ranges of a file: one after the other on a local disk, in parallel where each costs a round trip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from pyiceberg.io import FileIO, InputStream

from spark_job.index.puffin import require_complete, require_size
from spark_job.storage.parallel import is_remote

_THREADS = 32


@cache
def range_pool() -> ThreadPoolExecutor:
    """Threads that wait for storage. Created on first use, in the process that uses them."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="ranges")


@cache
def segment_pool() -> ThreadPoolExecutor:
    """Threads that search segments. They wait for `range_pool`, so sharing one pool could deadlock."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="segments")


@dataclass(frozen=True)
class RangeReader:
    """Reads ranges (offset, length) of one file."""

    io: FileIO
    path: str
    stream: InputStream

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each range."""
        require_size(self.stream, self.path, max([offset + length for offset, length in ranges], default=0))
        sequential = len(ranges) < 2 or not is_remote(self.path)
        if isinstance(self.stream, pa.NativeFile):
            read = self._read_at
        else:
            read = self._read_shared_stream if sequential else self._read_new_stream
        found = list((map if sequential else range_pool().map)(read, ranges))
        for data, (_, length) in zip(found, ranges, strict=True):
            require_complete(self.path, length, data)
        return found

    def _read_at(self, byte_range: tuple[int, int]) -> bytes:
        """Arrow's files allow positioned reads from several threads."""
        offset, length = byte_range
        data: bytes = self.stream.read_at(length, offset)  # type: ignore[attr-defined]
        return data

    def _read_shared_stream(self, byte_range: tuple[int, int]) -> bytes:
        offset, length = byte_range
        self.stream.seek(offset)
        return self.stream.read(length)

    def _read_new_stream(self, byte_range: tuple[int, int]) -> bytes:
        offset, length = byte_range
        with self.io.new_input(self.path).open() as stream:
            stream.seek(offset)
            return stream.read(length)


@contextmanager
def open_ranges(io: FileIO, path: str) -> Iterator[RangeReader]:
    """Open a file for reading ranges."""
    with io.new_input(path).open() as stream:
        yield RangeReader(io, path, stream)
