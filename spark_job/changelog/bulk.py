"""How much memory the rows of a Parquet file take, which its size does not tell.

A dictionary holds a value once, however many rows have it: a file of some kilobytes may unpack to gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from icemirror.errors import Invalid

_LITTLE_BYTES = 256 << 20
_BATCH_BYTES = 64 << 20  # that are unpacked at once where all is more than little
_PIECE_BYTES = 128 << 20
_MOST_BYTES = 1 << 30
_LONG_BYTES = 32 << 10
_USUAL_RATIO = 16  # of unpacked bytes to packed ones
_PROBE_ROWS = 1024
_BUFFER_BYTES = 1 << 18


def piece_bytes(packed_bytes: int) -> int:
    """How much of the rows of some files is held at once: all of what files of this size usually unpack to."""
    return min(_MOST_BYTES, max(_PIECE_BYTES, _USUAL_RATIO * packed_bytes))


def batch_rows(
    io: FileIO, path: str, parquet: pq.ParquetFile, group: int, columns: Sequence[str]
) -> int | None:
    """How many rows of a row group to unpack at once; None: all of them.

    The footer alone settles it where even the worst that it allows is little: every value as long as its whole column.
    """
    weight: int = parquet.metadata.row_group(group).total_byte_size
    weight += sum(
        count * length for _, count, length in _suspects(io, path, parquet, group, columns, _LITTLE_BYTES)
    )
    if weight <= _LITTLE_BYTES:
        return None
    rows: int = parquet.metadata.row_group(group).num_rows
    return max(1, rows * _BATCH_BYTES // weight)


def require_short(io: FileIO, path: str, parquet: pq.ParquetFile, columns: Sequence[str]) -> None:
    """Refuses long values in columns that are read whole, where all of them would take all memory."""
    for group in range(parquet.num_row_groups):
        for name, count, length in _suspects(io, path, parquet, group, columns, _MOST_BYTES):
            if length > _LONG_BYTES and count * length > _MOST_BYTES:
                raise Invalid(
                    f"{path}: column {name} holds values of up to {length} bytes, in a row group of {count} rows. "
                    "That is too much for key, operation or sequence"
                )


def _suspects(
    io: FileIO, path: str, parquet: pq.ParquetFile, group: int, columns: Sequence[str], little: int
) -> Iterator[tuple[str, int, int]]:
    """Columns that may unpack to more than little: their name, about how many values, the longest of a dictionary.

    Only what the footer says of the row group is asked: of a single column PyArrow cannot be asked safely, since a
    damaged footer then ends the process.
    """
    described = parquet.metadata.row_group(group)
    if described.num_rows * described.total_byte_size <= little:
        return
    every = [parquet.schema.column(at) for at in range(len(parquet.schema))]
    leaves = [one.path for one in every if one.physical_type == "BYTE_ARRAY" and _is_of(one.path, columns)]
    first = _first_rows(io, path, parquet, group, leaves) if leaves else None
    if first is None:
        return
    packed = [one for column in first.columns for one in _packed(column)]
    for leaf, values in zip(leaves, packed, strict=True):
        count = described.num_rows * (len(values) or len(first)) // len(first)
        longest = pc.max(pc.binary_length(values.dictionary)).as_py()
        # Without a value among the first rows the dictionary is not known: it is no longer than all.
        yield leaf, count, described.total_byte_size if longest is None else longest


def _is_of(path: str, columns: Sequence[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def _first_rows(
    io: FileIO, path: str, parquet: pq.ParquetFile, group: int, leaves: Sequence[str]
) -> pa.RecordBatch | None:
    """Some rows of these columns as numbers and a dictionary, which is whole from the first row on."""
    with (
        io.new_input(path).open(seekable=True) as stream,
        pq.ParquetFile(
            stream,
            metadata=parquet.metadata,
            read_dictionary=list(leaves),
            buffer_size=_BUFFER_BYTES,
            page_checksum_verification=True,
        ) as packed,
    ):
        return next(packed.iter_batches(_PROBE_ROWS, row_groups=[group], columns=list(leaves)), None)


def _packed(array: pa.Array) -> Iterator[pa.Array]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield array
    elif pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            yield from _packed(array.field(at))
    elif pa.types.is_map(kind):
        yield from _packed(array.keys)
        yield from _packed(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _packed(array.values)
