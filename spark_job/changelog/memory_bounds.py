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

from spark_job.changelog.bad_rows import BadFile

_DECODE_WHOLE_BYTES = 256 << 20  # a row group of at most this size is decoded at once …
_BATCH_BYTES = 64 << 20  # … a larger one in batches of this size
_MIN_ROW_BYTES = 128 << 20
_MAX_ROW_BYTES = 1 << 30
_LONG_VALUE_BYTES = 32 << 10
_TYPICAL_EXPANSION = 16  # decoded bytes per encoded byte
_PROBE_ROWS = 1024
_BUFFER_BYTES = 1 << 18


def max_row_bytes(encoded_bytes: int) -> int:
    """Return how many bytes of rows to hold at once: as many as files of this size usually decode to."""
    return min(_MAX_ROW_BYTES, max(_MIN_ROW_BYTES, _TYPICAL_EXPANSION * encoded_bytes))


def batch_rows(
    io: FileIO, path: str, parquet: pq.ParquetFile, group: int, columns: Sequence[str]
) -> int | None:
    """Return how many rows of a row group to decode at once; None: all of them.

    If even the worst case in the footer is small (every value as long as the column), nothing is read.
    """
    decoded_bytes: int = parquet.metadata.row_group(group).total_byte_size
    decoded_bytes += sum(
        count * length
        for _, count, length in _columns_that_may_expand(
            io, path, parquet, group, columns, _DECODE_WHOLE_BYTES
        )
    )
    if decoded_bytes <= _DECODE_WHOLE_BYTES:
        return None
    rows: int = parquet.metadata.row_group(group).num_rows
    return max(1, rows * _BATCH_BYTES // decoded_bytes)


def refuse_long_values(io: FileIO, path: str, parquet: pq.ParquetFile, columns: Sequence[str]) -> None:
    """Raise `BadFile` at long values in columns that are read as a whole, if they would exhaust the memory."""
    for group in range(parquet.num_row_groups):
        for name, count, length in _columns_that_may_expand(
            io, path, parquet, group, columns, _MAX_ROW_BYTES
        ):
            if length > _LONG_VALUE_BYTES and count * length > _MAX_ROW_BYTES:
                raise BadFile(
                    f"column {name} has values of up to {length} bytes in a row group of {count} rows, too large for a "
                    "key, operation or sequence column",
                    path,
                )


def _columns_that_may_expand(
    io: FileIO, path: str, parquet: pq.ParquetFile, group: int, columns: Sequence[str], max_bytes: int
) -> Iterator[tuple[str, int, int]]:
    """Yield columns that may decode to more than `max_bytes`: name, approximate count, longest dictionary value.

    Only the row group's totals in the footer are used: with a damaged footer, PyArrow's metadata of a single column
    crashes the process.
    """
    row_group = parquet.metadata.row_group(group)
    if row_group.num_rows * row_group.total_byte_size <= max_bytes:
        return
    schema = [parquet.schema.column(index) for index in range(len(parquet.schema))]
    leaves = [
        leaf.path
        for leaf in schema
        if leaf.physical_type == "BYTE_ARRAY" and _is_column_or_nested(leaf.path, columns)
    ]
    first_rows = _read_first_rows(io, path, parquet, group, leaves) if leaves else None
    if first_rows is None:
        return
    encoded = [array for column in first_rows.columns for array in _dictionary_arrays(column)]
    for leaf, values in zip(leaves, encoded, strict=True):
        count = row_group.num_rows * (len(values) or len(first_rows)) // len(first_rows)
        longest = pc.max(pc.binary_length(values.dictionary)).as_py()
        # Without a value in the first rows the dictionary is unknown; no value is longer than the row group.
        yield leaf, count, row_group.total_byte_size if longest is None else longest


def _is_column_or_nested(path: str, columns: Sequence[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def _read_first_rows(
    io: FileIO, path: str, parquet: pq.ParquetFile, group: int, leaves: Sequence[str]
) -> pa.RecordBatch | None:
    """Return some rows of these columns dictionary-encoded; the dictionary is complete from the first row on."""
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
    """Yield the dictionary-encoded arrays inside an array."""
    array_type = array.type
    if pa.types.is_dictionary(array_type):
        yield array
    elif pa.types.is_struct(array_type):
        for child_index in range(array_type.num_fields):
            yield from _dictionary_arrays(array.field(child_index))
    elif pa.types.is_map(array_type):
        yield from _dictionary_arrays(array.keys)
        yield from _dictionary_arrays(array.items)
    elif pa.types.is_list(array_type) or pa.types.is_large_list(array_type):
        yield from _dictionary_arrays(array.values)
