"""Reads columns of Parquet data files by Iceberg field id."""

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

from icemirror.errors import REBUILD_ADVICE, Corrupt, Invalid, Transient
from spark_job.columns.distinct import distinct
from spark_job.columns.name_mapping import NameMappedIO, NameMappedParquet
from spark_job.columns.normalize_arrow import normalize_column
from spark_job.columns.projection import nested_ids, read_field_id

_DAMAGED = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    pa.ArrowTypeError,
    pa.ArrowCapacityError,
    UnicodeDecodeError,  # a name or value that is not UTF-8
)
_FIRST_RESERVED = 2147483447  # field ids from here on are reserved: the spec, "Reserved Field IDs"
_BATCH_ROWS = 1 << 16
_MAX_USUAL_GROUP_BYTES = 256 << 20  # uncompressed


@contextmanager
def open_parquet(
    io: FileIO, path: str, rows: int | None = None, buffer_bytes: int = 0
) -> Iterator[pq.ParquetFile]:
    """Open a data file. If `rows` is given, the file must have that many rows.

    With `buffer_bytes`, columns are streamed in reads of this size; otherwise each column is read at once. Pages are
    checked against their checksums, if the writer stored them. Errors name the file and omit Arrow's message, which
    may contain values.
    """
    parquet: pq.ParquetFile | None = None
    try:
        names = io.names if isinstance(io, NameMappedIO) else None
        with io.new_input(path).open(seekable=True) as stream, _parse(stream, buffer_bytes, names) as parquet:
            _check_rows(parquet.metadata, path, rows)
            yield parquet
    except FileNotFoundError as error:
        raise Corrupt(
            "a data file is missing that the table references. Restore it, then `icemirror resume`. If it cannot be "
            f"restored and is the mirror's, {REBUILD_ADVICE}; if it is the changelog's, recreate the changelog from "
            f"its source first: {path}"
        ) from error
    except _DAMAGED as error:
        raise Corrupt(f"not a readable Parquet file ({type(error).__name__}): {path}") from error
    except MemoryError as error:
        raise _classify_memory_error(path, parquet) from error
    except OSError as error:
        if error.errno is None and type(error) is OSError:
            raise _classify_read_error(io, path) from error
        raise


def _parse(
    stream: Any,  # noqa: ANN401 (each FileIO has its own type)
    buffer_bytes: int = 0,
    names: Sequence[MappedField] | None = None,
) -> pq.ParquetFile:
    options = {
        "page_checksum_verification": True,
        "buffer_size": buffer_bytes,
        # Timestamps of old writers. Arrow's default, nanoseconds, cannot represent years before 1677.
        "coerce_int96_timestamp_unit": "us",
    }
    return pq.ParquetFile(stream, **options) if names is None else NameMappedParquet(stream, names, **options)


def _check_rows(footer: pq.FileMetaData, path: str, rows: int | None) -> None:
    """Raise `Corrupt` if the footer's row counts are wrong, before anything is read or allocated by them."""
    group_rows = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    if sum(group_rows) != footer.num_rows or min(group_rows, default=0) < 0:
        raise Corrupt(
            f"the row groups have {sum(group_rows)} rows, but the footer states {footer.num_rows}: {path}"
        )
    if rows is not None and rows != footer.num_rows:
        raise Corrupt(f"the file has {footer.num_rows} rows, although the table states {rows}: {path}")


def _classify_memory_error(path: str, parquet: pq.ParquetFile | None) -> Corrupt | Transient:
    """Return the error for a MemoryError: if the row groups are small by the footer, a page header is damaged."""
    footer: Any = parquet.metadata if parquet else None
    groups = range(footer.num_row_groups if parquet else 0)
    largest_group_bytes = max((footer.row_group(group).total_byte_size for group in groups), default=0)
    if largest_group_bytes <= _MAX_USUAL_GROUP_BYTES:
        return Corrupt(f"the Parquet file is damaged (a page of it would take all memory): {path}")
    return Transient(f"not enough memory for a row group of {largest_group_bytes} bytes: {path}")


def _classify_read_error(io: FileIO, path: str) -> Corrupt | Transient:
    """Read the whole file again and return the error: Arrow raises the same one for damage and storage failures."""
    try:
        input_file = io.new_input(path)
        with input_file.open(seekable=False) as stream:
            content = stream.read()
        size = len(input_file)
    except Exception as error:
        return Transient(f"storage or network failed: {error}: {path}")
    if len(content) < size:
        return Transient(f"storage returned {len(content)} of {size} bytes: {path}")
    try:
        with _parse(pa.BufferReader(content)) as parquet:
            for group in range(parquet.num_row_groups):
                parquet.read_row_group(group)
    except (*_DAMAGED, OSError, MemoryError) as error:
        return Corrupt(f"the Parquet file is damaged ({type(error).__name__}): {path}")
    return Transient(f"storage returned wrong bytes, then the right ones: {path}")


def check_field_ids(parquet: pq.ParquetFile, path: str, last_id: int) -> None:
    """Raise `Corrupt` for field ids that the table never had: a damaged footer would turn existing values into NULL."""
    ids = list(nested_ids(parquet.schema_arrow))
    if len(set(ids)) < len(ids) or any(
        not (1 <= field_id <= last_id or field_id >= _FIRST_RESERVED) for field_id in ids
    ):
        raise Corrupt(
            f"the file has columns with field ids that its table does not have, or has twice: {path}"
        )


def column_names(parquet: pq.ParquetFile, path: str) -> dict[int, str]:
    """Return field id → name of the file's top-level columns."""
    names = {read_field_id(field, path): field.name for field in parquet.schema_arrow}
    if len(names) < len(parquet.schema_arrow) or len(set(names.values())) < len(names):
        raise Corrupt(f"two of its columns have one field id, or one name: {path}")
    return names


def column_paths(parquet: pq.ParquetFile, path: str, field_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return field id → path of names, for those of the columns and struct fields that the file contains."""
    paths: dict[int, tuple[str, ...]] = {
        field_id: (name,) for field_id, name in column_names(parquet, path).items()
    }
    if not all(field_id in paths for field_id in field_ids):
        paths = {**dict(_nested_paths(parquet.schema_arrow, path)), **paths}
    return {field_id: paths[field_id] for field_id in field_ids if field_id in paths}


def _nested_paths(
    fields: Iterable[pa.Field], path: str, parents: tuple[str, ...] = ()
) -> Iterator[tuple[int, tuple[str, ...]]]:
    for field in fields:
        names = (*parents, field.name)
        if parents:
            yield read_field_id(field, path), names
        if pa.types.is_struct(field.type):
            yield from _nested_paths(field.type, path, names)


def read_columns(
    parquet: pq.ParquetFile,
    path: str,
    field_ids: Sequence[int],
    row_groups: Sequence[int] | None = None,
    rows: int | None = None,
) -> list[pa.Array]:
    """Return columns, or struct fields, in the order of the ids, each as one array of its normalized type.

    Reads the whole file, or only these row groups, or only the first `rows` rows of them.
    """
    paths_by_id = column_paths(parquet, path, field_ids)
    missing = [field_id for field_id in field_ids if field_id not in paths_by_id]
    if missing:
        raise Invalid(
            f"the file has no column with field id {missing[0]}, which is part of key, operation or sequence: {path}"
        )
    selected_paths = [paths_by_id[field_id] for field_id in field_ids]
    groups = range(parquet.num_row_groups) if row_groups is None else row_groups
    names = list(dict.fromkeys(".".join(column_path) for column_path in selected_paths))
    if rows is None:
        table = read_groups(parquet, path, list(groups), names)
    else:
        table = _read_first_rows(parquet, path, list(groups), names, rows)
    return [
        _combine_chunks(normalize_column(_select_column(table, column_path)))
        for column_path in selected_paths
    ]


def iter_column(parquet: pq.ParquetFile, path: str, field_id: int) -> Iterator[pa.Array]:
    """Yield one column of the whole file in batches, each as `read_columns` returns it."""
    column_path = column_paths(parquet, path, (field_id,))[field_id]
    rows = 0
    for batch in parquet.iter_batches(_BATCH_ROWS, columns=[".".join(column_path)]):
        rows += len(batch)
        yield _combine_chunks(normalize_column(_select_column(pa.Table.from_batches([batch]), column_path)))
    if rows != parquet.metadata.num_rows:
        raise _incomplete_read_error(path, rows, parquet.metadata.num_rows)


def _incomplete_read_error(path: str, rows_read: int, rows: int) -> Corrupt:
    return Corrupt(f"the Parquet file is damaged: {rows_read} of {rows} rows were read: {path}")


def _select_column(table: pa.Table, column_path: tuple[str, ...]) -> pa.ChunkedArray:
    """Return a column, or a struct field, which is NULL where the struct is NULL."""
    column = table[column_path[0]]
    return column if len(column_path) == 1 else pc.struct_field(column, list(column_path[1:]))


def read_groups(parquet: pq.ParquetFile, path: str, groups: list[int], columns: list[str]) -> pa.Table:
    """Return these columns of some row groups, with as many rows as the footer states."""
    table = parquet.read_row_groups(groups, columns=columns)
    rows = sum(parquet.metadata.row_group(group).num_rows for group in groups)
    if table.num_rows != rows or any(len(column) != rows for column in table.columns):
        raise _incomplete_read_error(path, table.num_rows, rows)
    return table


def _read_first_rows(
    parquet: pq.ParquetFile, path: str, groups: list[int], columns: list[str], rows: int
) -> pa.Table:
    """Return the first rows, read in batches, so that later pages are not decompressed."""
    batches: list[pa.RecordBatch] = []
    for batch in parquet.iter_batches(min(rows, _BATCH_ROWS), row_groups=groups, columns=columns):
        batches.append(batch)
        if sum(map(len, batches)) >= rows:
            return pa.Table.from_batches(batches)
    raise _incomplete_read_error(path, sum(map(len, batches)), rows)


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def row_group_starts(parquet: pq.ParquetFile) -> NDArray[np.int64]:
    """Return the first row number of each row group, and as the last element the number of rows."""
    sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def read_rows_at(
    parquet: pq.ParquetFile, path: str, field_ids: Sequence[int], rows: NDArray[np.int64]
) -> list[pa.Array]:
    """Return values of these columns at ascending row numbers. Reads only the row groups that contain them."""
    starts = row_group_starts(parquet)
    if len(rows) and int(rows[-1]) >= starts[-1]:
        raise Corrupt(f"the file has {starts[-1]} rows, but row {int(rows[-1])} was requested: {path}")
    group_of_row = np.searchsorted(starts, rows, side="right") - 1
    groups = distinct(group_of_row)
    # The groups are read into one table: `first_row[group]` is where a group begins in it.
    first_row = np.zeros(parquet.num_row_groups, dtype=np.int64)
    first_row[groups] = np.concatenate([[0], np.cumsum(np.diff(starts)[groups])[:-1]])
    positions = rows - starts[group_of_row] + first_row[group_of_row]
    columns = read_columns(parquet, path, field_ids, groups.tolist())
    return [column.take(pa.array(positions)) for column in columns]
