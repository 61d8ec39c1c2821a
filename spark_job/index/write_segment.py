"""Writes a segment of the key index as a Puffin file. `segment.py` describes the format."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Invalid
from spark_job.index.key_codec import KeyCodec
from spark_job.index.location import new_segment_path
from spark_job.index.orders import BLOB_TYPE as ORDERS_TYPE
from spark_job.index.orders import encode_orders, greatest_order
from spark_job.index.puffin import Blob, write_puffin
from spark_job.index.segment import (
    BLOB_TYPE,
    BLOCK_ROWS,
    DIRECTORY_TYPE,
    TOMBSTONE,
    Entries,
    Geometry,
    KeyDefinition,
    Layout,
    SegmentInfo,
    payload_columns,
)
from spark_job.storage.discard import discard_on_error

_MAX_POSITION = (1 << 32) - 1


def write_new_segment(
    io: FileIO, location: str, entries: Entries, definition: KeyDefinition, paths: Mapping[int, str]
) -> SegmentInfo | None:
    """Write entries whose `file` is an ordinal of the root to a new file. Return None if there are no entries.

    The segment lists only the data files that it needs. A failed write leaves no file.
    """
    if not len(entries):
        return None
    ordinals, local = np.unique(entries.file, return_inverse=True)
    has_tombstones = int(ordinals[0] == TOMBSTONE)
    files = tuple(int(ordinal) for ordinal in ordinals[has_tombstones:])
    path = new_segment_path(location)
    with discard_on_error(io, [path]):
        return write_segment(
            io,
            path,
            replace(entries, file=(local - has_tombstones).astype(np.int32)),
            definition,
            [paths[ordinal] for ordinal in files],
            files,
        )


def write_segment(
    io: FileIO,
    path: str,
    entries: Entries,
    definition: KeyDefinition,
    data_file_paths: Sequence[str],
    files: tuple[int, ...],
) -> SegmentInfo:
    """Write a segment and return its description.

    `data_file_paths`: the data files that `entries.file` refers to by index. `files`: their ordinals in the root.
    """
    if len(entries) and int(entries.pos.max(initial=0)) > _MAX_POSITION:
        raise Invalid(
            f"a data file has more than {_MAX_POSITION} rows; lower write.target-file-size-bytes: {path}"
        )
    codec = definition.codec
    layout, columns = _choose_layout(entries, codec)
    payload, geometry = _encode_payload(columns, codec, layout)
    directory = _encode_directory(columns, payload, geometry)
    properties = {
        "codec": codec.encoding.value,
        "hash_bits": str(codec.hash_bits),
        "salt": codec.salt.hex(),
        "key-ids": _comma_separated(definition.key_ids),
        "sequence-ids": _comma_separated(definition.sequence_ids),
        "layout": layout.value,
        "num_rows": str(len(entries)),
        "geometry": geometry.model_dump_json(),
        "covered-files": "\n".join(data_file_paths),
        "directory-crc": str(zlib.crc32(directory)),
    }
    size, (payload_span, directory_span, orders_span) = write_puffin(
        io,
        path,
        [
            Blob(BLOB_TYPE, payload, properties),
            Blob(DIRECTORY_TYPE, directory),
            Blob(ORDERS_TYPE, encode_orders(entries.orders)),
        ],
    )
    return SegmentInfo(
        path=path,
        bytes=size,
        encoding=codec.encoding,
        hash_bits=codec.hash_bits,
        salt=codec.salt.hex(),
        layout=layout,
        entries=len(entries),
        tombstones=int((entries.file == TOMBSTONE).sum()),
        first_key=entries.keys.at(0),
        last_key=entries.keys.at(-1),
        greatest_order=greatest_order(entries.orders),
        files=files,
        key_ids=definition.key_ids,
        sequence_ids=definition.sequence_ids,
        geometry=geometry,
        payload=payload_span,
        directory=directory_span,
        directory_crc=zlib.crc32(directory),
        orders=orders_span,
    )


def _comma_separated(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _choose_layout(entries: Entries, codec: KeyCodec) -> tuple[Layout, dict[str, NDArray[np.generic]]]:
    """Return the smaller of the two layouts, and the payload's columns in it."""
    columns: dict[str, NDArray[np.generic]] = {
        "key_lo": entries.keys.lo,
        "file": entries.file,
        "pos": entries.pos,
    }
    if entries.keys.hi is not None:
        columns["key_hi"] = entries.keys.hi
    if not codec.is_lossless:
        return Layout.ENTRIES, columns
    starts = np.flatnonzero(np.concatenate([[True], ~_continues_run(entries)]))
    width = {
        layout: sum(dtype.itemsize for _, dtype in payload_columns(codec.encoding, codec.hash_bits, layout))
        for layout in Layout
    }
    if len(starts) * width[Layout.RUNS] >= len(entries) * width[Layout.ENTRIES]:
        return Layout.ENTRIES, columns
    columns = {name: values[starts] for name, values in columns.items()}
    columns["length"] = np.diff(np.append(starts, len(entries)))
    return Layout.RUNS, columns


def _continues_run(entries: Entries) -> NDArray[np.bool_]:
    """Return for each entry but the first whether it continues the run of the previous entry."""
    same_file = entries.file[1:] == entries.file[:-1]
    next_row = entries.pos[1:] - entries.pos[:-1] == 1
    both_tombstones = (entries.file[1:] == TOMBSTONE) & (entries.file[:-1] == TOMBSTONE)
    continues: NDArray[np.bool_] = entries.keys.follows_previous() & same_file & (next_row | both_tombstones)
    return continues


def _encode_payload(
    columns: dict[str, NDArray[np.generic]], codec: KeyCodec, layout: Layout
) -> tuple[bytes, Geometry]:
    stored = payload_columns(codec.encoding, codec.hash_bits, layout)
    schema = pa.schema([pa.field(name, pa.from_numpy_dtype(dtype), nullable=False) for name, dtype in stored])
    table = pa.table([pa.array(columns[name].astype(dtype)) for name, dtype in stored], schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=BLOCK_ROWS,
        compression="none",
        use_dictionary=False,
        column_encoding="PLAIN",
        write_statistics=False,
        store_schema=False,
    )
    payload = sink.getvalue()
    geometry = _read_geometry(
        pq.read_metadata(pa.BufferReader(payload)), [dtype.itemsize for _, dtype in stored]
    )
    return payload.to_pybytes(), geometry


def _read_geometry(footer: pq.FileMetaData, widths: list[int]) -> Geometry:
    """Return the offsets in the footer that the writer produced. Check that all full blocks have one layout."""
    blocks: list[tuple[int, int, tuple[int, ...]]] = []
    for group_index in range(footer.num_row_groups):
        group = footer.row_group(group_index)
        chunks = [group.column(column) for column in range(group.num_columns)]
        start = chunks[0].data_page_offset
        values = tuple(
            chunk.data_page_offset + chunk.total_compressed_size - width * group.num_rows - start
            for chunk, width in zip(chunks, widths, strict=True)
        )
        blocks.append((start, chunks[-1].data_page_offset + chunks[-1].total_compressed_size - start, values))
    full = footer.num_rows // BLOCK_ROWS
    base, stride, columns = blocks[0] if full else (0, 0, ())
    if any(block != (base + index * stride, stride, columns) for index, block in enumerate(blocks[:full])):
        raise AssertionError("the Parquet writer gave two full blocks different layouts")
    tail, tail_length, tail_columns = blocks[full] if full < len(blocks) else (0, 0, ())
    return Geometry(
        rows=footer.num_rows,
        base=base,
        stride=stride,
        columns=columns,
        tail=tail,
        tail_length=tail_length,
        tail_columns=tail_columns,
    )


def _encode_directory(columns: dict[str, NDArray[np.generic]], payload: bytes, geometry: Geometry) -> bytes:
    view = memoryview(payload)
    spans = [
        (geometry.base + block * geometry.stride, geometry.stride)
        if block < geometry.full_blocks
        else (geometry.tail, geometry.tail_length)
        for block in range(geometry.blocks)
    ]
    checksums = np.array([zlib.crc32(view[start : start + length]) for start, length in spans], dtype="<u4")
    parts = [columns[name][::BLOCK_ROWS].astype("<u8") for name in ("key_hi", "key_lo") if name in columns]
    if "length" in columns:
        lengths = columns["length"].astype(np.uint64)
        entries_before = np.concatenate([[np.uint64(0)], np.cumsum(lengths)[:-1]])
        parts.append(entries_before[::BLOCK_ROWS].astype("<u8"))
    return b"".join(part.tobytes() for part in (*parts, checksums))
