"""Files in memory, which a dead process can neither write nor delete."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO, InputFile, OutputFile


class Died(BaseException):
    """The process was killed: handlers that catch this cannot clean up."""


class MemoryIO(FileIO):
    """Maps paths to bytes. `dead`: the process was killed."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.dead = False

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        if self.dead:
            raise OSError("the process is dead")
        path = location if isinstance(location, str) else location.location
        if path not in self.files:
            raise FileNotFoundError(path)
        del self.files[path]

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None


class _Input(InputFile):
    def __init__(self, location: str, io: MemoryIO) -> None:
        super().__init__(location)
        self._io = io

    def __len__(self) -> int:
        return len(self._io.read(self.location))

    def exists(self) -> bool:
        return self.location in self._io.files

    def open(self, seekable: bool = True) -> Any:
        return _Reader(self._io.read(self.location))


class _Reader(pa.BufferReader):
    """Like a local file: seeking beyond the end is allowed."""

    def seek(self, position: int, whence: int = 0) -> int:
        return int(super().seek(min(position, self.size()) if whence == 0 else position, whence))


class _Output(OutputFile):
    def __init__(self, location: str, io: MemoryIO) -> None:
        super().__init__(location)
        self._io = io

    def __len__(self) -> int:
        return len(self._io.read(self.location))

    def exists(self) -> bool:
        return self.location in self._io.files

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._io)

    def create(self, overwrite: bool = False) -> Any:
        return _Stream(self.location, self._io)


class _Stream(BytesIO):
    def __init__(self, location: str, io: MemoryIO) -> None:
        super().__init__()
        self._location, self._io = location, io

    def close(self) -> None:
        if not self.closed and not self._io.dead:
            self._io.files[self._location] = self.getvalue()
        super().close()
