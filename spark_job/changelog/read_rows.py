"""Read rows from Parquet files of changelog or mirror by position, projected to the mirror's schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from icemirror.errors import Corrupt
from spark_job.changelog.memory_bounds import batch_rows
from spark_job.columns.arrays import invert_permutation
from spark_job.columns.distinct import distinct
from spark_job.columns.field_map import FieldMap, field_ids
from spark_job.columns.missing_columns import MissingValues, fill_missing_column
from spark_job.columns.parquet_columns import column_names, open_parquet, read_groups, row_group_starts
from spark_job.columns.projection import Projection, project_column, read_field_id


class RowFile(Protocol):
    """A Parquet file with rows: a changelog file, or a data file of the mirror."""

    @property
    def path(self) -> str:
        """The location of the file."""

    @property
    def row_count(self) -> int:
        """The number of rows, with which the footer must agree."""

    @property
    def missing_values(self) -> MissingValues:
        """By field id, the values of columns that the file may lack."""


class RowsExceedMemory(Exception):
    """The rows exceed the memory limit: read fewer."""


def read_rows(
    io: FileIO,
    files: Sequence[RowFile],
    file: NDArray[np.uint32],
    row: NDArray[np.uint32],
    field_map: FieldMap,
    schema: Schema,
    defaults: MissingValues | None = None,
    max_bytes: int | None = None,
) -> pa.Table:
    """Return the rows at (file, row), which must be ascending, with the columns of the mirror's schema.

    `defaults`: values of columns that a file does not have, by the changelog's field ids. Raise `RowsExceedMemory` if
    more than one row is requested and they take more than `max_bytes`.
    """
    target = schema_to_pyarrow(schema)
    tables: list[pa.Table] = []
    held_bytes = 0
    for ordinal in distinct(file):
        row_file = files[int(ordinal)]
        rows = row[file == ordinal].astype(np.int64)
        with open_parquet(io, row_file.path, row_file.row_count) as parquet:
            for table in read_selected_rows(
                io, parquet, rows, file_projection(row_file, field_map, defaults), target
            ):
                tables.append(table)
                held_bytes += table.nbytes
                if max_bytes is not None and held_bytes > max_bytes and len(row) > 1:
                    raise RowsExceedMemory
    return pa.concat_tables(tables)


def read_at_positions(
    io: FileIO,
    files: Sequence[RowFile],
    file: NDArray[np.uint32],
    row: NDArray[np.uint32],
    field_map: FieldMap,
    schema: Schema,
    defaults: MissingValues | None = None,
    max_bytes: int | None = None,
) -> pa.Table:
    """Return the columns of a schema at (file, row), in any order. Raises `RowsExceedMemory` as `read_rows` does."""
    order = np.lexsort((row, file))
    schema_ids = set(field_ids(schema.as_struct()))
    read_ids = {source: target for source, target in field_map.items() if target in schema_ids}
    rows = read_rows(io, files, file[order], row[order], read_ids, schema, defaults, max_bytes)
    return rows.take(pa.array(invert_permutation(order)))


def file_projection(file: RowFile, field_map: FieldMap, defaults: MissingValues | None = None) -> Projection:
    """Return the projection of a file's columns to the mirror's."""
    missing = {**(defaults or {}), **file.missing_values}
    mapped = {field_map[field_id]: value for field_id, value in missing.items() if field_id in field_map}
    return Projection(file.path, field_map, mapped)


def read_selected_rows(
    io: FileIO, parquet: pq.ParquetFile, rows: NDArray[np.int64], projection: Projection, target: pa.Schema
) -> Iterator[pa.Table]:
    """Yield the rows of a file at these ascending positions, by row group; row groups without any are not read."""
    path = projection.path
    sources = source_columns(parquet, projection)
    starts = row_group_starts(parquet)
    if int(rows[-1]) >= starts[-1]:
        raise Corrupt(f"the file has {starts[-1]} rows, but row {int(rows[-1])} was requested: {path}")
    bounds = np.searchsorted(rows, starts)
    for group in range(parquet.num_row_groups):
        rows_in_group = rows[bounds[group] : bounds[group + 1]] - starts[group]
        if not len(rows_in_group):
            continue
        columns = list(sources.values())
        if not columns:
            yield project_rows(pa.table({}), len(rows_in_group), sources, projection, target)
            continue
        max_rows = batch_rows(io, path, parquet, group, columns)
        if max_rows is None:
            table = read_groups(parquet, path, [group], columns)
            yield project_rows(_take(table, rows_in_group), len(rows_in_group), sources, projection, target)
            continue
        first = 0
        for batch in parquet.iter_batches(max_rows, row_groups=[group], columns=columns):
            start, end = np.searchsorted(rows_in_group, [first, first + len(batch)])
            if start < end:
                table = pa.Table.from_batches([batch])
                selected = _take(table, rows_in_group[start:end] - first)
                yield project_rows(selected, selected.num_rows, sources, projection, target)
            first += len(batch)
        if first != starts[group + 1] - starts[group]:
            raise Corrupt(f"the Parquet file is damaged: a row group has only {first} rows: {path}")


def _take(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Return these rows. A row may occur twice: an event that changes a key is a delete and an upsert."""
    is_whole_table = len(rows) == table.num_rows and bool((rows == np.arange(len(rows))).all())
    return table if is_whole_table else table.take(pa.array(rows))


def source_columns(parquet: pq.ParquetFile, projection: Projection) -> dict[int, str]:
    """Return the names of the file's columns by the mirror's field ids."""
    names = column_names(parquet, projection.path)
    return {
        projection.field_map[field_id]: name
        for field_id, name in names.items()
        if field_id in projection.field_map
    }


def project_rows(
    table: pa.Table, rows: int, sources: Mapping[int, str], projection: Projection, target: pa.Schema
) -> pa.Table:
    """Return the mirror's columns by field id; `rows` is the row count, which a table without columns lacks."""
    columns: list[pa.ChunkedArray] = []
    for field in target:
        field_id = read_field_id(field, projection.path)
        name = sources.get(field_id)
        if name is None:
            values = fill_missing_column(field, rows, field_id, projection.missing_values, projection.path)
            columns.append(pa.chunked_array([values], field.type))
        else:
            columns.append(project_column(table[name], field.type, projection))
    return pa.table(columns, schema=target)
