"""Read byte ranges of a file, and distinguish a file that is too short from a response that is incomplete."""

from __future__ import annotations

from os import SEEK_END

import pyarrow as pa
from pyiceberg.io import InputStream

from icemirror.errors import Corrupt, Transient


def read_exactly(stream: InputStream, path: str, offset: int, length: int) -> bytes:
    """Return exactly these bytes of a file."""
    require_size(stream, path, offset + length)
    stream.seek(offset)
    return require_complete(path, length, stream.read(length))


def require_size(stream: InputStream, path: str, end: int) -> None:
    """Raise `Corrupt` if the file is shorter than `end`: object stores report this like any other error."""
    # Arrow's files on Google Cloud Storage cannot seek to the end.
    size = stream.size() if isinstance(stream, pa.NativeFile) else stream.seek(0, SEEK_END)
    if size < end:
        raise Corrupt(f"the file ends before byte {end}: {path}")


def require_complete(path: str, length: int, data: bytes) -> bytes:
    """Return the data if it has the requested length. The caller has checked that the range is within the file."""
    if len(data) != length:
        raise Transient(f"storage returned {len(data)} of {length} bytes: {path}")
    return data
