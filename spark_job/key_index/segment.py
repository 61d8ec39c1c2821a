"""A segment: sorted keys and where their rows are, in a Parquet file that lookups read by arithmetic.

The payload is ordinary Parquet: REQUIRED columns, PLAIN, uncompressed, 256 rows a row group ("block").
Every full block then has the same length and the same layout, so that block b starts at `base + b × stride`
and its columns at fixed offsets from there; only the last block has a layout of its own.

    base                    base + stride           …             tail
    │ hdr key_hi hdr key_lo │ hdr key_hi hdr key_lo │             │ hdr key_hi …
    │ hdr length hdr file … │ hdr length hdr file … │             │ (fewer rows)

In the layout `entries` a row is one key. In the layout `runs` a row is `length` consecutive keys at
consecutive positions of one file; it is chosen where it is smaller. A tombstone has file −1.

A directory blob (little-endian arrays back to back) gives the first key of each block, for runs the number of
entries before it, and a CRC-32 of its bytes. See docs/key-index.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from pyiceberg.io import FileIO

from icemirror.errors import Invalid
from spark_job.key_index import orders as order_column
from spark_job.key_index.codec import Encoding, KeyCodec
from spark_job.key_index.keys import U64, Keys
from spark_job.key_index.puffin import Blob, Span, write_puffin

BLOB_TYPE = "icemirror-key-index-v1"
DIRECTORY_TYPE = "icemirror-key-directory-v1"
BLOCK_ROWS = 256
TOMBSTONE = -1
_MAX_POSITION = (1 << 32) - 1


class Layout(StrEnum):
    """What one row of the payload stands for."""

    ENTRIES = "entries"
    RUNS = "runs"


class Geometry(BaseModel):
    """Where the values of each block lie within the payload."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int
    base: int
    stride: int
    columns: tuple[int, ...]
    tail: int
    tail_length: int
    tail_columns: tuple[int, ...]

    @property
    def blocks(self) -> int:
        """How many blocks there are, the last one included."""
        return -(-self.rows // BLOCK_ROWS)

    @property
    def full_blocks(self) -> int:
        """Blocks of the fixed layout."""
        return self.rows // BLOCK_ROWS


class SegmentInfo(BaseModel):
    """All that a lookup must know of a segment; kept in the root, so that its footer need not be read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    bytes: int
    encoding: Encoding
    hash_bits: int
    salt: str = ""
    layout: Layout
    entries: int
    tombstones: int
    first_key: int
    last_key: int
    greatest: tuple[int, ...]
    files: tuple[int, ...]
    run: int = 0
    written_at: int = 0

    key_ids: tuple[int, ...] = ()
    sequence_ids: tuple[int, ...] = ()
    geometry: Geometry
    payload: Span
    directory: Span
    directory_crc: int
    orders: Span

    def in_run(self, run: int, written_at: int) -> SegmentInfo:
        """The segment as a part of a run, written then (milliseconds)."""
        return self.model_copy(update={"run": run, "written_at": written_at})

    @property
    def alike(self) -> Hashable:
        """Equal for segments whose blocks have one layout."""
        return self.encoding, self.hash_bits, self.layout, self.geometry.stride, self.geometry.columns

    @property
    def recipe(self) -> Recipe:
        """What its codes and orders were made of."""
        codec = KeyCodec(self.encoding, self.hash_bits, bytes.fromhex(self.salt))
        return Recipe(codec, self.key_ids, self.sequence_ids)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What codes and orders are made of: the columns of the changelog, by field id, and the codec."""

    codec: KeyCodec
    key_ids: tuple[int, ...] = ()
    sequence_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of a segment, ascending by key, each key once. `file` is an ordinal, or −1 for a tombstone."""

    keys: Keys
    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    orders: U64

    def __len__(self) -> int:
        return len(self.keys)


def payload_columns(
    encoding: Encoding, hash_bits: int, layout: Layout
) -> list[tuple[str, np.dtype[np.generic]]]:
    """The payload's columns in file order, with the width in which they are stored."""
    columns: list[tuple[str, np.dtype[np.generic]]] = []
    if KeyCodec(encoding).is_wide:
        columns.append(("key_hi", np.dtype("<u8")))
    small = encoding is Encoding.HASHED and hash_bits <= 96
    columns.append(("key_lo", np.dtype("<u4") if small else np.dtype("<u8")))
    if layout is Layout.RUNS:
        columns.append(("length", np.dtype("<u4")))
    return [*columns, ("file", np.dtype("<i4")), ("pos", np.dtype("<u4"))]


def write_segment(
    io: FileIO, path: str, entries: Entries, recipe: Recipe, covered: Sequence[str], files: tuple[int, ...]
) -> SegmentInfo:
    """Writes a segment; `covered` are the paths that the ordinals in `entries.file` stand for."""
    if len(entries) and int(entries.pos.max(initial=0)) > _MAX_POSITION:
        raise Invalid(
            f"{path}: a data file has more than {_MAX_POSITION} rows; lower write.target-file-size-bytes"
        )
    codec = recipe.codec
    layout, columns = _lay_out(entries, codec)
    payload, geometry = _encode_payload(columns, codec, layout)
    directory = _encode_directory(columns, payload, geometry)
    order_bytes = order_column.encode_orders(entries.orders)
    described = {
        "codec": codec.encoding.value,
        "hash_bits": str(codec.hash_bits),
        "salt": codec.salt.hex(),
        "key-ids": _listed(recipe.key_ids),
        "sequence-ids": _listed(recipe.sequence_ids),
        "layout": layout.value,
        "num_rows": str(len(entries)),
        "geometry": geometry.model_dump_json(),
        "covered-files": "\n".join(covered),
        "directory-crc": str(zlib.crc32(directory)),
    }
    size, (payload_at, directory_at, orders_at) = write_puffin(
        io,
        path,
        [
            Blob(BLOB_TYPE, payload, described),
            Blob(DIRECTORY_TYPE, directory),
            Blob(order_column.BLOB_TYPE, order_bytes),
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
        greatest=order_column.greatest_order(entries.orders),
        files=files,
        key_ids=recipe.key_ids,
        sequence_ids=recipe.sequence_ids,
        geometry=geometry,
        payload=payload_at,
        directory=directory_at,
        directory_crc=zlib.crc32(directory),
        orders=orders_at,
    )


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _lay_out(entries: Entries, codec: KeyCodec) -> tuple[Layout, dict[str, NDArray[np.generic]]]:
    """The payload's columns in the smaller of the two layouts."""
    columns: dict[str, NDArray[np.generic]] = {
        "key_lo": entries.keys.lo,
        "file": entries.file,
        "pos": entries.pos,
    }
    if entries.keys.hi is not None:
        columns["key_hi"] = entries.keys.hi
    if not codec.lossless:
        return Layout.ENTRIES, columns
    starts = np.flatnonzero(np.concatenate([[True], ~_continues(entries)]))
    width = {
        layout: sum(dtype.itemsize for _, dtype in payload_columns(codec.encoding, codec.hash_bits, layout))
        for layout in Layout
    }
    if len(starts) * width[Layout.RUNS] >= len(entries) * width[Layout.ENTRIES]:
        return Layout.ENTRIES, columns
    columns = {name: values[starts] for name, values in columns.items()}
    columns["length"] = np.diff(np.append(starts, len(entries)))
    return Layout.RUNS, columns


def _continues(entries: Entries) -> NDArray[np.bool_]:
    """For each entry but the first: does it continue the run of the one before?"""
    same_file = entries.file[1:] == entries.file[:-1]
    next_row = entries.pos[1:] - entries.pos[:-1] == 1
    both_dead = (entries.file[1:] == TOMBSTONE) & (entries.file[:-1] == TOMBSTONE)
    continues: NDArray[np.bool_] = entries.keys.follows_previous() & same_file & (next_row | both_dead)
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
    geometry = _measure(pq.read_metadata(pa.BufferReader(payload)), [dtype.itemsize for _, dtype in stored])
    return payload.to_pybytes(), geometry


def _measure(footer: pq.FileMetaData, widths: list[int]) -> Geometry:
    """Takes the offsets from the writer's own footer, and makes sure that the arithmetic holds."""
    blocks: list[tuple[int, int, tuple[int, ...]]] = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        chunks = [group.column(column) for column in range(group.num_columns)]
        start = chunks[0].data_page_offset
        values = tuple(
            chunk.data_page_offset + chunk.total_compressed_size - width * group.num_rows - start
            for chunk, width in zip(chunks, widths, strict=True)
        )
        blocks.append((start, chunks[-1].data_page_offset + chunks[-1].total_compressed_size - start, values))
    full = footer.num_rows // BLOCK_ROWS
    base, stride, columns = blocks[0] if full else (0, 0, ())
    if any(block != (base + number * stride, stride, columns) for number, block in enumerate(blocks[:full])):
        raise AssertionError("the Parquet writer did not lay out equal blocks equally")
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
    checksums = np.array([zlib.crc32(view[at : at + length]) for at, length in spans], dtype="<u4")
    parts = [columns[name][::BLOCK_ROWS].astype("<u8") for name in ("key_hi", "key_lo") if name in columns]
    if "length" in columns:
        lengths = columns["length"].astype(np.uint64)
        before = np.concatenate([[np.uint64(0)], np.cumsum(lengths)[:-1]])
        parts.append(before[::BLOCK_ROWS].astype("<u8"))
    return b"".join(part.tobytes() for part in (*parts, checksums))
