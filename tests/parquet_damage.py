"""How a reader that checks checksums reports a flipped bit in a Parquet page."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def unnoticed_flips(path: Path) -> int:
    """How many flipped bits in the pages of a file, one at a time, give other rows without an error."""
    content = path.read_bytes()
    right = _read(content)
    (length,) = struct.unpack_from("<I", content, len(content) - 8)
    unnoticed = 0
    for at in range(4, len(content) - 8 - length):
        damaged = bytearray(content)
        damaged[at] ^= 1
        try:
            unnoticed += not _read(bytes(damaged)).equals(right)
        except (OSError, pa.ArrowException):
            continue
    return unnoticed


def _read(content: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True).read(use_threads=False)
