"""Bound the memory that the rows of a Parquet file take when they are decoded.

The file size does not bound it: a dictionary stores each distinct value once. A file of some kilobytes may decode to
gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from icemirror.errors import Invalid

_DECODE_WHOLE_BYTES = 256 << 20  # a row group of at most this size is decoded at once …
_BATCH_BYTES = 64 << 20  # … a larger one in batches of this size
_MIN_PIECE_BYTES = 128 << 20
_MAX_PIECE_BYTES = 1 << 30
_LONG_VALUE_BYTES = 32 << 10
_TYPICAL_EXPANSION = 16  # decoded bytes per encoded byte
_PROBE_ROWS = 1024
_BUFFER_BYTES = 1 << 18


def piece_bytes(encoded_bytes: int) -> int:
    """Return how many bytes of rows are held at once: as many as files of this size usually decode to."""
    return min(_MAX_PIECE_BYTES, max(_MIN_PIECE_BYTES, _TYPICAL_EXPANSION * encoded_bytes))


def batch_rows(
    io: FileIO, path: str, parquet: pq.ParquetFile, group: int, columns: Sequence[str]
) -> int | None:
    """Return how many rows of a row group to decode at once; None: all of them.

    If even the worst case in the footer is small (every value as long as the column), nothing is read.
    """
    weight: int = parquet.metadata.row_group(group).total_byte_size
    weight += sum(
        count * length
        for _, count, length in _columns_that_may_expand(
            io, path, parquet, group, columns, _DECODE_WHOLE_BYTES
        )
    )
    if weight <= _DECODE_WHOLE_BYTES:
        return None
    rows: int = parquet.metadata.row_group(group).num_rows
    return max(1, rows * _BATCH_BYTES // weight)


def refuse_long_values(io: FileIO, path: str, parquet: pq.ParquetFile, columns: Sequence[str]) -> None:
    """Refuse long values in columns that are read as a whole, if they would exhaust the memory."""
    for group in range(parquet.num_row_groups):
        for name, count, length in _columns_that_may_expand(
            io, path, parquet, group, columns, _MAX_PIECE_BYTES
        ):
            if length > _LONG_VALUE_BYTES and count * length > _MAX_PIECE_BYTES:
                raise Invalid(
                    f"column {name} has values of up to {length} bytes in a row group of {count} rows, too large for a "
                    f"key, operation or sequence column: {path}"
                )


def _columns_that_may_expand(
    io: FileIO, path: str, parquet: pq.ParquetFile, group: int, columns: Sequence[str], max_bytes: int
) -> Iterator[tuple[str, int, int]]:
    """Yield columns that may decode to more than `max_bytes`: name, approximate count, longest dictionary value.

    Only the row group's totals in the footer are used: with a damaged footer, PyArrow's metadata of a single column
    crashes the process.
    """
    described = parquet.metadata.row_group(group)
    if described.num_rows * described.total_byte_size <= max_bytes:
        return
    schema = [parquet.schema.column(number) for number in range(len(parquet.schema))]
    leaves = [
        leaf.path for leaf in schema if leaf.physical_type == "BYTE_ARRAY" and _is_in(leaf.path, columns)
    ]
    first = _first_rows(io, path, parquet, group, leaves) if leaves else None
    if first is None:
        return
    encoded = [array for column in first.columns for array in _dictionary_arrays(column)]
    for leaf, values in zip(leaves, encoded, strict=True):
        count = described.num_rows * (len(values) or len(first)) // len(first)
        longest = pc.max(pc.binary_length(values.dictionary)).as_py()
        # Without a value in the first rows the dictionary is unknown; no value is longer than the row group.
        yield leaf, count, described.total_byte_size if longest is None else longest


def _is_in(path: str, columns: Sequence[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def _first_rows(
    io: FileIO, path: str, parquet: pq.ParquetFile, group: int, leaves: Sequence[str]
) -> pa.RecordBatch | None:
    """Read some rows of these columns dictionary-encoded; the dictionary is complete from the first row on."""
    with (
        io.new_input(path).open(seekable=True) as stream,
        pq.ParquetFile(
            stream,
            metadata=parquet.metadata,
            read_dictionary=list(leaves),
            buffer_size=_BUFFER_BYTES,
            page_checksum_verification=True,
        ) as encoded,
    ):
        return next(encoded.iter_batches(_PROBE_ROWS, row_groups=[group], columns=list(leaves)), None)


def _dictionary_arrays(array: pa.Array) -> Iterator[pa.Array]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield array
    elif pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _dictionary_arrays(array.field(number))
    elif pa.types.is_map(kind):
        yield from _dictionary_arrays(array.keys)
        yield from _dictionary_arrays(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _dictionary_arrays(array.values)
