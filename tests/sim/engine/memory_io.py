"""Files in memory, which a process that has died cannot write or delete any more."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO, InputFile, OutputFile


class Died(BaseException):
    """The process ended here: whoever catches this to tidy up finds that it cannot."""


class MemoryIO(FileIO):
    """Path → bytes. `dead`: of a process that was killed."""

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
        """The content of a file."""
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
    """Like a local file: whoever seeks beyond the end finds nothing there."""

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
