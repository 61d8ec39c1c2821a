"""Reads columns of Iceberg's Parquet files by field id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.table.name_mapping import MappedField

from icemirror.errors import REBUILD, Corrupt, Invalid, Transient
from spark_job.columns.name_mapping import NamedIO, ParquetByName
from spark_job.columns.one_form import in_one_form
from spark_job.columns.projection import field_id_of, nested_ids
from spark_job.distinct import distinct

_DAMAGED = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    pa.ArrowTypeError,
    pa.ArrowCapacityError,
    UnicodeDecodeError,  # a name or value that is no text
)
_FIRST_RESERVED = 2147483447  # field ids from here on are not a table's own: the spec, "Reserved Field IDs"
_BATCH_ROWS = 1 << 16
_USUAL_BYTES = 256 << 20  # of a row group, unpacked


@contextmanager
def open_parquet(
    io: FileIO, path: str, rows: int | None = None, buffer_bytes: int = 0
) -> Iterator[pq.ParquetFile]:
    """Opens a data file, which must have as many rows as the table says, if that is known.

    With a buffer, columns are read as far as they are asked for, so many bytes at a time, else whole.

    Pages are compared with their checksums, where the writer put some. A file that is missing or damaged is named,
    without Arrow's words: they may hold values.
    """
    parquet: pq.ParquetFile | None = None
    try:
        names = io.names if isinstance(io, NamedIO) else None
        with io.new_input(path).open(seekable=True) as stream, _parse(stream, buffer_bytes, names) as parquet:
            _check_rows(parquet.metadata, path, rows)
            yield parquet
    except FileNotFoundError as error:
        raise Corrupt(
            f"{path}: the file is gone, although the table still names it. Restore it, then `icemirror resume`. If it "
            f"is lost for good and the mirror's, {REBUILD}; if it is the changelog's, create the changelog anew from "
            "its source first."
        ) from error
    except _DAMAGED as error:
        raise Corrupt(f"{path}: not a readable Parquet file ({type(error).__name__})") from error
    except MemoryError as error:
        raise _too_large(path, parquet) from error
    except OSError as error:
        if error.errno is None and type(error) is OSError:
            raise _look_again(io, path) from error
        raise


def _parse(
    stream: Any,  # noqa: ANN401 (whatever storage gives)
    buffer_bytes: int = 0,
    names: Sequence[MappedField] | None = None,
) -> pq.ParquetFile:
    options = {
        "page_checksum_verification": True,
        "buffer_size": buffer_bytes,
        # Old writers' timestamps. Arrow's own choice, nanoseconds, has no room for the years before 1677.
        "coerce_int96_timestamp_unit": "us",
    }
    return pq.ParquetFile(stream, **options) if names is None else ParquetByName(stream, names, **options)


def _check_rows(footer: pq.FileMetaData, path: str, rows: int | None) -> None:
    """Nothing is read, and no memory taken, by a number that nobody else confirms."""
    groups = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    if sum(groups) != footer.num_rows or min(groups, default=0) < 0:
        raise Corrupt(f"{path}: its row groups have {sum(groups)} rows, its footer says {footer.num_rows}")
    if rows is not None and rows != footer.num_rows:
        raise Corrupt(f"{path}: has {footer.num_rows} rows, although the table says {rows}")


def _too_large(path: str, parquet: pq.ParquetFile | None) -> Corrupt | Transient:
    """Pages say how large they are; where the footer says that they are small, they are damaged."""
    footer: Any = parquet.metadata if parquet else None
    groups = range(footer.num_row_groups if parquet else 0)
    most = max((footer.row_group(group).total_byte_size for group in groups), default=0)
    if most <= _USUAL_BYTES:
        return Corrupt(f"{path}: the Parquet file is damaged (a part of it would take all memory)")
    return Transient(f"{path}: there is not enough memory for a row group of {most} bytes")


def _look_again(io: FileIO, path: str) -> Corrupt | Transient:
    """Reads the whole file once more: Arrow has one word for a damaged page and for storage that failed."""
    try:
        source = io.new_input(path)
        with source.open(seekable=False) as stream:
            content = stream.read()
        size = len(source)
    except Exception as error:
        return Transient(f"{path}: storage or network failed: {error}")
    if len(content) < size:
        return Transient(f"{path}: storage gave {len(content)} bytes of {size}")
    try:
        with _parse(pa.BufferReader(content)) as parquet:
            for group in range(parquet.num_row_groups):
                parquet.read_row_group(group)
    except (*_DAMAGED, OSError, MemoryError) as error:
        return Corrupt(f"{path}: the Parquet file is damaged ({type(error).__name__})")
    return Transient(f"{path}: storage did not give the file as it is; now it does")


def check_ids(parquet: pq.ParquetFile, path: str, last_id: int) -> None:
    """Refuses columns that the table never had: those of a damaged footer, whose own values would be taken for NULL."""
    ids = list(nested_ids(parquet.schema_arrow))
    if len(set(ids)) < len(ids) or any(not (1 <= one <= last_id or one >= _FIRST_RESERVED) for one in ids):
        raise Corrupt(f"{path}: has columns with field ids that its table does not have, or has twice")


def column_names(parquet: pq.ParquetFile, path: str) -> dict[int, str]:
    """Field id → name, for the top level of a file."""
    names = {field_id_of(field, path): field.name for field in parquet.schema_arrow}
    if len(names) < len(parquet.schema_arrow) or len(set(names.values())) < len(names):
        raise Corrupt(f"{path}: two of its columns have one field id, or one name")
    return names


def column_paths(parquet: pq.ParquetFile, path: str, field_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Field id → names from the top level down, for columns and fields of structs that the file has."""
    paths: dict[int, tuple[str, ...]] = {
        field_id: (name,) for field_id, name in column_names(parquet, path).items()
    }
    if not all(field_id in paths for field_id in field_ids):
        paths = {**dict(_inside(parquet.schema_arrow, path)), **paths}
    return {field_id: paths[field_id] for field_id in field_ids if field_id in paths}


def _inside(
    fields: Iterable[pa.Field], path: str, above: tuple[str, ...] = ()
) -> Iterator[tuple[int, tuple[str, ...]]]:
    for field in fields:
        names = (*above, field.name)
        if above:
            yield field_id_of(field, path), names
        if pa.types.is_struct(field.type):
            yield from _inside(field.type, path, names)


def read_columns(
    parquet: pq.ParquetFile,
    path: str,
    field_ids: Sequence[int],
    row_groups: Sequence[int] | None = None,
    rows: int | None = None,
) -> list[pa.Array]:
    """Columns, or fields of structs, in the order of the ids, each in one piece and in the one form of its values.

    Whole ones, or of some row groups, or no more of these than the first so many rows.
    """
    names = column_paths(parquet, path, field_ids)
    missing = [field_id for field_id in field_ids if field_id not in names]
    if missing:
        raise Invalid(
            f"{path}: has no column with field id {missing[0]}, which is part of key, operation or sequence"
        )
    wanted = [names[field_id] for field_id in field_ids]
    groups = range(parquet.num_row_groups) if row_groups is None else row_groups
    columns = list(dict.fromkeys(".".join(name) for name in wanted))
    if rows is None:
        table = read_groups(parquet, path, list(groups), columns)
    else:
        table = _read_front(parquet, path, list(groups), columns, rows)
    return [_in_one_piece(in_one_form(_pick(table, name))) for name in wanted]


def iter_column(parquet: pq.ParquetFile, path: str, field_id: int) -> Iterator[pa.Array]:
    """As `read_columns` one column of all row groups, some rows at a time."""
    name = column_paths(parquet, path, (field_id,))[field_id]
    rows = 0
    for batch in parquet.iter_batches(_BATCH_ROWS, columns=[".".join(name)]):
        rows += len(batch)
        yield _in_one_piece(in_one_form(_pick(pa.Table.from_batches([batch]), name)))
    if rows != parquet.metadata.num_rows:
        raise Corrupt(
            f"{path}: the Parquet file is damaged: {rows} rows were read of {parquet.metadata.num_rows}"
        )


def _pick(table: pa.Table, name: tuple[str, ...]) -> pa.ChunkedArray:
    """A column, or a field of a struct: NULL where the struct is."""
    column = table[name[0]]
    return column if len(name) == 1 else pc.struct_field(column, list(name[1:]))


def read_groups(parquet: pq.ParquetFile, path: str, groups: list[int], columns: list[str]) -> pa.Table:
    """These columns of some row groups, with as many rows as the footer says."""
    table = parquet.read_row_groups(groups, columns=columns)
    rows = sum(parquet.metadata.row_group(group).num_rows for group in groups)
    if table.num_rows != rows or any(len(column) != rows for column in table.columns):
        raise Corrupt(f"{path}: the Parquet file is damaged: {table.num_rows} rows were read of {rows}")
    return table


def _read_front(
    parquet: pq.ParquetFile, path: str, groups: list[int], columns: list[str], rows: int
) -> pa.Table:
    """Pages behind the last row that is asked for are not unpacked."""
    batches: list[pa.RecordBatch] = []
    for batch in parquet.iter_batches(min(rows, _BATCH_ROWS), row_groups=groups, columns=columns):
        batches.append(batch)
        if sum(map(len, batches)) >= rows:
            return pa.Table.from_batches(batches)
    raise Corrupt(f"{path}: the Parquet file is damaged: {sum(map(len, batches))} rows were read of {rows}")


def _in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def row_group_starts(parquet: pq.ParquetFile) -> NDArray[np.int64]:
    """The first row of each row group, and the number of rows as the last element."""
    sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def read_at(
    parquet: pq.ParquetFile, path: str, field_ids: Sequence[int], rows: NDArray[np.int64]
) -> list[pa.Array]:
    """Values of these columns at ascending row numbers, reading only the row groups that hold them."""
    starts = row_group_starts(parquet)
    if len(rows) and int(rows[-1]) >= starts[-1]:
        raise Corrupt(f"{path}: has {starts[-1]} rows, but row {int(rows[-1])} was asked for")
    groups = distinct(np.searchsorted(starts, rows, side="right") - 1)
    within = np.zeros(parquet.num_row_groups, dtype=np.int64)
    within[groups] = np.concatenate([[0], np.cumsum(np.diff(starts)[groups])[:-1]])
    group_of = np.searchsorted(starts, rows, side="right") - 1
    places = rows - starts[group_of] + within[group_of]
    columns = read_columns(parquet, path, field_ids, groups.tolist())
    return [column.take(pa.array(places)) for column in columns]
