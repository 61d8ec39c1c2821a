"""Reads byte ranges of a file: one after the other on a local disk, in parallel where each costs a round trip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io import FileIO, InputStream

from spark_job.storage.parallel import is_remote, range_pool
from spark_job.storage.read_exactly import require_complete, require_size


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
        contents = list((map if sequential else range_pool().map)(read, ranges))
        for content, (_, length) in zip(contents, ranges, strict=True):
            require_complete(self.path, length, content)
        return contents

    def _read_at(self, byte_range: tuple[int, int]) -> bytes:
        """Read from an Arrow file, which several threads may do at once."""
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
    """Yield a reader of ranges of a file, which is closed afterwards."""
    with io.new_input(path).open() as stream:
        yield RangeReader(io, path, stream)
