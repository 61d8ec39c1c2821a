"""A FileIO that counts the bytes read through it."""

from __future__ import annotations

from types import TracebackType

from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO


class CountingFileIO(PyArrowFileIO):
    """`read_bytes`: number of bytes read so far."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes = 0

    def new_input(self, location: str) -> CountingFile:
        return CountingFile(super().new_input(location), self)


class CountingFile(PyArrowFile):
    """An input file whose streams are counted."""

    def __init__(self, file: PyArrowFile, counter: CountingFileIO) -> None:
        self.__dict__.update(file.__dict__)
        self._counter = counter

    def open(self, seekable: bool = True) -> InputStream:
        return CountingStream(super().open(seekable), self._counter)


class CountingStream(InputStream):
    """An input stream that is counted."""

    def __init__(self, stream: InputStream, counter: CountingFileIO) -> None:
        self._stream, self._counter = stream, counter

    def read(self, size: int = 0) -> bytes:
        self._counter.read_bytes += size
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> InputStream:
        return self

    def __exit__(
        self,
        exctype: type[BaseException] | None,
        excinst: BaseException | None,
        exctb: TracebackType | None,
    ) -> None:
        self.close()
