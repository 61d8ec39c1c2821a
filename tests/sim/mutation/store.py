"""Files in memory, read like a local disk or like an object store, which rejects reads beyond the end."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.io import InputFile

from tests.sim.engine.memory_io import MemoryIO, _Input


class Store(MemoryIO):
    """Maps paths to bytes; `remote`: with the errors that Arrow raises for S3."""

    def __init__(self, *, remote: bool) -> None:
        super().__init__()
        self.remote = remote

    def new_input(self, location: str) -> InputFile:
        return _RemoteInput(location, self) if self.remote else super().new_input(location)


class _RemoteInput(_Input):
    def open(self, seekable: bool = True) -> Any:
        return _RemoteReader(self._io.read(self.location))


class _RemoteReader(pa.BufferReader):
    def seek(self, position: int, whence: int = 0) -> int:
        if whence == 0 and position > self.size():
            raise OSError("Cannot seek past end of file")
        return int(super().seek(position, whence))

    def read_at(self, nbytes: int, offset: int) -> bytes:
        if offset > self.size():
            raise OSError("Cannot read past end of file")
        return bytes(super().read_at(nbytes, offset))
