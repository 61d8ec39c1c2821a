"""The bytes of deletion vectors (format v3).

Layout of a vector (https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type):

    length of magic and bitmap, uint32 BE | D1 D3 39 64 | 64-bit Roaring bitmap, portable | CRC-32 of both, uint32 BE
"""

from __future__ import annotations

import struct
import zlib
from array import array

import numpy as np
from pyiceberg.io import FileIO
from pyroaring import BitMap64

from icemirror.errors import Corrupt
from spark_job.iceberg.live_files import LiveDelete
from spark_job.index.puffin import Span, read_span
from spark_job.write.position_deletes import Positions

BLOB_TYPE = "deletion-vector-v1"
_MAGIC = b"\xd1\xd3\x39\x64"
_UINT32 = struct.Struct(">I")
_FRAME_BYTES = 2 * _UINT32.size + len(_MAGIC)
# A container of the bitmap covers 65,536 positions with at most 8 KiB, plus a few bytes of description.
_CONTAINER_ROWS = 1 << 16
_CONTAINER_BYTES = (8 << 10) + 64
_HEADER_BYTES = 1 << 10


def read_vector(io: FileIO, vector: LiveDelete, rows: int) -> Positions:
    """Read the deleted positions of a data file with this many rows, ascending."""
    span = Span(offset=vector.offset or 0, length=vector.bytes)
    source = f"{vector.path}, byte {span.offset}"
    return decode_vector(read_span(io, vector.path, span, max_vector_bytes(rows)), rows, vector.rows, source)


def encode_vector(positions: Positions) -> bytes:
    """Return the bytes of the vector with these positions."""
    bitmap = BitMap64(array("Q", positions.astype(np.uint64).tobytes()))
    bitmap.run_optimize()
    content = _MAGIC + bitmap.serialize()
    return _UINT32.pack(len(content)) + content + _UINT32.pack(zlib.crc32(content))


def decode_vector(data: bytes, rows: int, cardinality: int, source: str) -> Positions:
    """Return the positions, ascending.

    Raise `Corrupt` if the cardinality differs from the manifest's, or a position is beyond the data file's rows.
    """
    if len(data) < _FRAME_BYTES:
        raise Corrupt(f"{len(data)} bytes are too few for a deletion vector: {source}")
    (length,) = _UINT32.unpack_from(data)
    if length != len(data) - 2 * _UINT32.size:
        raise Corrupt(f"a deletion vector of {len(data)} bytes states a length of {length}: {source}")
    content = data[_UINT32.size : -_UINT32.size]
    if not content.startswith(_MAGIC):
        raise Corrupt(f"the magic bytes of a deletion vector are missing: {source}")
    if _UINT32.unpack(data[-_UINT32.size :]) != (zlib.crc32(content),):
        raise Corrupt(f"the checksum of a deletion vector does not match: {source}")
    try:
        bitmap = BitMap64.deserialize(content[len(_MAGIC) :])
    except (ValueError, IndexError) as error:
        raise Corrupt(f"the bitmap of a deletion vector cannot be read: {source}") from error
    # A few bytes may encode billions of positions: count them before expanding them.
    if len(bitmap) != cardinality:
        raise Corrupt(
            f"the manifest states that {cardinality} rows are deleted, the vector {len(bitmap)}: {source}"
        )
    if cardinality and bitmap.max() >= rows:
        raise Corrupt(f"row {bitmap.max()} is deleted in a data file of {rows} rows: {source}")
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64)


def max_vector_bytes(rows: int) -> int:
    """Return the greatest size of a vector for a data file with this many rows."""
    return _FRAME_BYTES + _HEADER_BYTES + (rows // _CONTAINER_ROWS + 1) * _CONTAINER_BYTES
