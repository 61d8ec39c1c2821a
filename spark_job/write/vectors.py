"""Deletion vectors (format v3): their bytes, and one Puffin file with the vectors of all data files that lose rows.

Layout of a vector (https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type):

    length of magic and bitmap, uint32 BE | D1 D3 39 64 | 64-bit Roaring bitmap, portable | CRC-32 of both, uint32 BE
"""

from __future__ import annotations

import struct
import uuid
import zlib
from array import array
from collections.abc import Mapping
from functools import partial

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyroaring import BitMap64

from icemirror.errors import REBUILD, Corrupt
from spark_job.columns.distinct import distinct_union
from spark_job.iceberg.live_files import DELETED_PATH_ID, LiveDelete, LiveFile
from spark_job.iceberg.write_properties import file_locations
from spark_job.index.puffin import Blob, Span, read_span, write_puffin
from spark_job.storage.discard import discard_on_error
from spark_job.storage.parallel import map_parallel
from spark_job.write.position_deletes import Positions, files_by_delete, read_position_deletes

BLOB_TYPE = "deletion-vector-v1"
_ROW_POSITION_ID = 2147483645  # `_pos`: a reserved field id of the spec
_MAGIC = b"\xd1\xd3\x39\x64"
_UINT32 = struct.Struct(">I")
_FRAME_BYTES = 2 * _UINT32.size + len(_MAGIC)
# A container of the bitmap covers 65,536 positions with at most 8 KiB, plus a few bytes of description.
_CONTAINER_ROWS = 1 << 16
_CONTAINER_BYTES = (8 << 10) + 64
_HEADER_BYTES = 1 << 10


def write_vectors(
    io: FileIO,
    metadata: TableMetadata,
    removed: Mapping[str, Positions],
    live: Mapping[str, LiveFile],
    written: list[str] | None = None,
) -> list[DataFile]:
    """Write one vector per data file: the removed positions and all that were deleted before.

    The path is appended to `written` first, so that the caller can discard the file if the commit fails.
    """
    if not removed:
        return []
    earlier = deleted_positions(io, {path: live[path] for path in removed})
    merged = {path: _merge(live[path], earlier[path], positions) for path, positions in removed.items()}
    blobs = [
        Blob(
            BLOB_TYPE,
            encode_vector(positions),
            {"referenced-data-file": path, "cardinality": str(len(positions))},
            (_ROW_POSITION_ID,),
        )
        for path, positions in merged.items()
    ]
    locations = file_locations(metadata.location, metadata.properties)
    location = locations.new_data_location(f"{uuid.uuid4()}-deletes.puffin")
    if written is not None:
        written.append(location)
    with discard_on_error(io, [location]):
        size, spans = write_puffin(io, location, blobs)
    return [
        _delete_file(location, size, span, live[path], len(positions))
        for (path, positions), span in zip(merged.items(), spans, strict=True)
    ]


def _delete_file(location: str, file_bytes: int, span: Span, target: LiveFile, cardinality: int) -> DataFile:
    # Readers that do not know `referenced_data_file` find the data file by these bounds.
    bounds = {DELETED_PATH_ID: target.path.encode()}
    file = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PUFFIN,
        partition=target.partition,
        record_count=cardinality,
        file_size_in_bytes=file_bytes,
        lower_bounds=bounds,
        upper_bounds=bounds,
        referenced_data_file=target.path,
        content_offset=span.offset,
        content_size_in_bytes=span.length,
    )
    file.spec_id = target.spec_id
    return file


def _merge(target: LiveFile, earlier: Positions, removed: Positions) -> Positions:
    """Return both, ascending; a row can be removed only once."""
    merged = distinct_union(earlier, removed)
    if len(merged) != target.deleted + len(removed):
        raise Corrupt(
            f"{target.deleted} rows were deleted and {len(removed)} more are removed, but together they are "
            f"{len(merged)}: some are deleted already; nothing was committed. To continue, {REBUILD}. "
            f"The data file: {target.path}"
        )
    if int(merged[-1]) >= target.rows:
        raise Corrupt(
            f"row {int(merged[-1])} of a data file with {target.rows} rows is removed; nothing was committed. To "
            f"continue, {REBUILD}. The data file: {target.path}"
        )
    return merged


def deleted_positions(io: FileIO, targets: Mapping[str, LiveFile]) -> dict[str, Positions]:
    """Return the deleted positions of each data file, from its vector or from all its position delete files."""
    wanted = files_by_delete(targets.values())
    parts: dict[str, list[Positions]] = {path: [np.empty(0, np.int64)] for path in targets}
    for found in map_parallel(partial(_read, io), list(wanted.items()), next(iter(targets), "")):
        for path, positions in found.items():
            parts[path].append(positions)
    return {path: np.concatenate(found) for path, found in parts.items()}


def _read(io: FileIO, wanted: tuple[LiveDelete, list[LiveFile]]) -> dict[str, Positions]:
    delete, targets = wanted
    if delete.is_vector:
        return {target.path: _read_vector(io, delete, target.rows) for target in targets}
    return read_position_deletes(io, wanted)


def _read_vector(io: FileIO, vector: LiveDelete, rows: int) -> Positions:
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

    Refuse a vector whose cardinality differs from the manifest's, or with a position beyond the data file's rows.
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
