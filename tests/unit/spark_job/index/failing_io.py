"""A FileIO whose reads fail a few times like a busy object store: an OSError without errno, or too few bytes."""

from __future__ import annotations

from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from tests.unit.spark_job.index.counting_io import CountingFile, CountingFileIO, CountingStream

ERROR_MESSAGE = "When reading from key 'k' in bucket 'b': AWS Error SLOW_DOWN during GetObject operation"


class FailingFileIO(CountingFileIO):
    """The next `failures` reads fail; `short` returns half of the bytes instead of an error."""

    def __init__(self, failures: int, *, short: bool = False) -> None:
        super().__init__()
        self.failures, self.short = failures, short

    def new_input(self, location: str) -> FailingFile:
        return FailingFile(PyArrowFileIO.new_input(self, location), self)


class FailingFile(CountingFile):
    """An input file whose streams fail."""

    def __init__(self, file: PyArrowFile, storage: FailingFileIO) -> None:
        super().__init__(file, storage)
        self._storage = storage

    def open(self, seekable: bool = True) -> InputStream:
        return FailingStream(PyArrowFile.open(self, seekable), self._storage)


class FailingStream(CountingStream):
    """An input stream that fails."""

    closed = False

    def __init__(self, stream: InputStream, storage: FailingFileIO) -> None:
        super().__init__(stream, storage)
        self._storage = storage

    def read(self, size: int = -1) -> bytes:
        if self._storage.failures <= 0:
            return self._stream.read() if size < 0 else self._stream.read(size)
        self._storage.failures -= 1
        if self._storage.short:
            return self._stream.read(size // 2)
        raise OSError(ERROR_MESSAGE)
