"""The bytes of a deletion vector: the positions of one data file's deleted rows.

    length of the next two, uint32 BE | D1 D3 39 64 | Roaring bitmap, 64 bits, portable | CRC-32 of those two, uint32 BE

Spec: https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type
"""

from __future__ import annotations

import struct
import zlib
from array import array

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from icemirror.errors import Corrupt

BLOB_TYPE = "deletion-vector-v1"
_MAGIC = b"\xd1\xd3\x39\x64"
_UINT32 = struct.Struct(">I")
_FRAME_BYTES = 2 * _UINT32.size + len(_MAGIC)
# A container of the bitmap covers 65,536 positions with at most 8 KiB, and has a few bytes of description.
_CONTAINER_ROWS = 1 << 16
_CONTAINER_BYTES = (8 << 10) + 64
_HEADER_BYTES = 1 << 10


def encode_vector(positions: NDArray[np.int64]) -> bytes:
    """The vector of these positions."""
    bitmap = BitMap64(array("Q", positions.astype(np.uint64).tobytes()))
    bitmap.run_optimize()
    content = _MAGIC + bitmap.serialize()
    return _UINT32.pack(len(content)) + content + _UINT32.pack(zlib.crc32(content))


def decode_vector(data: bytes, rows: int, cardinality: int, source: str) -> NDArray[np.int64]:
    """The positions, ascending; refused unless they are as many as the manifest says, of a file with so many rows."""
    if len(data) < _FRAME_BYTES:
        raise Corrupt(f"{source}: {len(data)} bytes are too few for a deletion vector")
    (length,) = _UINT32.unpack_from(data)
    if length != len(data) - 2 * _UINT32.size:
        raise Corrupt(f"{source}: a deletion vector of {len(data)} bytes that says it has {length}")
    content = data[_UINT32.size : -_UINT32.size]
    if not content.startswith(_MAGIC):
        raise Corrupt(f"{source}: the magic bytes of a deletion vector are missing")
    if _UINT32.unpack(data[-_UINT32.size :]) != (zlib.crc32(content),):
        raise Corrupt(f"{source}: the checksum of a deletion vector does not fit")
    try:
        bitmap = BitMap64.deserialize(content[len(_MAGIC) :])
    except (ValueError, IndexError) as error:
        raise Corrupt(f"{source}: the bitmap of a deletion vector cannot be read") from error
    # A few bytes may stand for billions of positions: counted before they are spread out.
    if len(bitmap) != cardinality:
        raise Corrupt(
            f"{source}: the manifest says that {cardinality} rows are deleted, the vector {len(bitmap)}"
        )
    if cardinality and bitmap.max() >= rows:
        raise Corrupt(f"{source}: row {bitmap.max()} is deleted in a data file of {rows} rows")
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64)


def most_bytes(rows: int) -> int:
    """No vector for a data file of so many rows takes more."""
    return _FRAME_BYTES + _HEADER_BYTES + (rows // _CONTAINER_ROWS + 1) * _CONTAINER_BYTES
