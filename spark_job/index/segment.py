"""The format of a segment: sorted keys and where their rows are, in a Parquet file that lookups read by arithmetic.

The payload is ordinary Parquet: REQUIRED columns, PLAIN, uncompressed, 256 rows per row group ("block"). Every full
block has the same length and layout. Block b starts at `base + b × stride`, and its columns at fixed offsets from
there. Only the last, shorter block has a different layout.

    base                    base + stride           …             tail
    │ hdr key_hi hdr key_lo │ hdr key_hi hdr key_lo │             │ hdr key_hi …
    │ hdr length hdr file … │ hdr length hdr file … │             │ (fewer rows)

In the layout `entries` a row is one key. In the layout `runs` a row is `length` consecutive keys at consecutive
positions of one file. The writer chooses the smaller layout. A tombstone has file −1.

A directory blob has one element per block in each of these little-endian arrays, back to back:

- the block's first key
- the number of entries before the block (only for runs)
- a CRC-32 of the block's bytes

See docs/reference/key-index.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from spark_job.columns.arrays import U64, Indices, Mask
from spark_job.index.key_codec import Encoding, KeyCodec
from spark_job.index.keys import Keys, concat_keys
from spark_job.index.puffin import Span

BLOB_TYPE = "icemirror-key-index-v1"
DIRECTORY_TYPE = "icemirror-key-directory-v1"
BLOCK_ROWS = 256
TOMBSTONE = -1


class Layout(StrEnum):
    """What one row of the payload describes."""

    ENTRIES = "entries"
    RUNS = "runs"


class Geometry(BaseModel):
    """Byte offsets of each block's values within the payload.

    - `rows`: rows of all blocks
    - `base`: offset of the first block
    - `stride`: length of a full block
    - `columns`: offset of each column's values from the start of a full block
    - `tail`: offset of the last, shorter block
    - `tail_length`: its length
    - `tail_columns`: offset of each column's values from its start
    """

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
        """Number of blocks, including the tail."""
        return -(-self.rows // BLOCK_ROWS)

    @property
    def full_blocks(self) -> int:
        """Number of blocks with the fixed layout."""
        return self.rows // BLOCK_ROWS


class SegmentInfo(BaseModel):
    """Everything a lookup needs to know about a segment. The root stores it, so lookups do not read the footer.

    `greatest_order` is stored as `greatest`, `sorted_run` as `run`, `written_at_ms` as `written_at`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

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
    greatest_order: tuple[int, ...] = Field(validation_alias="greatest", serialization_alias="greatest")
    files: tuple[int, ...]
    sorted_run: int = Field(default=0, validation_alias="run", serialization_alias="run")
    written_at_ms: int = Field(default=0, validation_alias="written_at", serialization_alias="written_at")

    key_ids: tuple[int, ...] = ()
    sequence_ids: tuple[int, ...] = ()
    geometry: Geometry
    payload: Span
    directory: Span
    directory_crc: int
    orders: Span

    def with_sorted_run(self, sorted_run: int, written_at_ms: int) -> SegmentInfo:
        """Return this segment as part of a sorted run, written at this time."""
        return self.model_copy(update={"sorted_run": sorted_run, "written_at_ms": written_at_ms})

    @property
    def block_layout(self) -> Hashable:
        """A value that is equal for segments whose blocks have the same layout."""
        return self.encoding, self.hash_bits, self.layout, self.geometry.stride, self.geometry.columns

    @property
    def key_definition(self) -> KeyDefinition:
        """The columns and the codec behind the keys and orders of this segment."""
        codec = KeyCodec(self.encoding, self.hash_bits, bytes.fromhex(self.salt))
        return KeyDefinition(codec, self.key_ids, self.sequence_ids)


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """How keys and orders are derived: the codec, and the changelog's key and sequence columns by field id."""

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

    def take(self, indices: Indices | Mask) -> Entries:
        """Return the entries at these indices."""
        return Entries(self.keys.take(indices), self.file[indices], self.pos[indices], self.orders[indices])


def concat_entries(parts: Sequence[Entries]) -> Entries:
    """Return the entries of all parts, in their order."""
    return Entries(
        concat_keys([part.keys for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
        np.concatenate([part.orders for part in parts]),
    )


def payload_columns(
    encoding: Encoding, hash_bits: int, layout: Layout
) -> list[tuple[str, np.dtype[np.generic]]]:
    """Return the payload's columns in file order, with their stored types."""
    columns: list[tuple[str, np.dtype[np.generic]]] = []
    if KeyCodec(encoding).is_wide:
        columns.append(("key_hi", np.dtype("<u8")))
    has_narrow_low_half = encoding is Encoding.HASHED and hash_bits <= 96
    columns.append(("key_lo", np.dtype("<u4") if has_narrow_low_half else np.dtype("<u8")))
    if layout is Layout.RUNS:
        columns.append(("length", np.dtype("<u4")))
    return [*columns, ("file", np.dtype("<i4")), ("pos", np.dtype("<u4"))]
