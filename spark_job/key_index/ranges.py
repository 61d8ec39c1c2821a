"""Ranges of a file: one after the other on a local disk, many at once where each costs a round trip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from pyiceberg.io import FileIO, InputStream

from spark_job.files.round_trips import is_remote
from spark_job.key_index.puffin import require_room, require_whole

_AT_ONCE = 32


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
        require_room(self.stream, self.path, max([offset + length for offset, length in ranges], default=0))
        in_turn = len(ranges) < 2 or not is_remote(self.path)
        if isinstance(self.stream, pa.NativeFile):
            read = self._at
        else:
            read = self._from_stream if in_turn else self._from_own_stream
        found = list((map if in_turn else readers().map)(read, ranges))
        for data, (_, length) in zip(found, ranges, strict=True):
            require_whole(self.path, length, data)
        return found

    def _at(self, place: tuple[int, int]) -> bytes:
        """Arrow's files may be read at places by many threads."""
        offset, length = place
        data: bytes = self.stream.read_at(length, offset)  # type: ignore[attr-defined]
        return data

    def _from_stream(self, place: tuple[int, int]) -> bytes:
        offset, length = place
        self.stream.seek(offset)
        return self.stream.read(length)

    def _from_own_stream(self, place: tuple[int, int]) -> bytes:
        offset, length = place
        with self.io.new_input(self.path).open() as stream:
            stream.seek(offset)
            return stream.read(length)


@contextmanager
def open_ranges(io: FileIO, path: str) -> Iterator[RangeReader]:
    """A file to read ranges of."""
    with io.new_input(path).open() as stream:
        yield RangeReader(io, path, stream)
