"""A FileIO with the errors that Arrow raises for an object store, also for reads beyond the end."""

from __future__ import annotations

from os import SEEK_END

from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from tests.unit.spark_job.index.counting_io import CountingFile, CountingFileIO, CountingStream


class RemoteFileIO(CountingFileIO):
    """Local files, read like objects of a store."""

    def new_input(self, location: str) -> RemoteFile:
        return RemoteFile(PyArrowFileIO.new_input(self, location), self)


class RemoteFile(CountingFile):
    """An input file with streams like those of an object store."""

    def open(self, seekable: bool = True) -> InputStream:
        return RemoteStream(PyArrowFile.open(self, seekable), self._counter)


class RemoteStream(CountingStream):
    """A stream that behaves like Arrow's S3 streams."""

    closed = False

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0 and offset > self._stream.seek(0, SEEK_END):
            raise OSError("Cannot seek past end of file")
        return self._stream.seek(offset, whence)
