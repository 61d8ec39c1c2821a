"""Materialise: the winning rows, read from their changelog files by position, in the mirror's schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from icemirror.errors import Corrupt
from spark_job.changelog.bulk import batch_rows
from spark_job.changelog.change_file import ChangeFile
from spark_job.columns.absent import Absent, absent_values
from spark_job.columns.field_map import FieldMap
from spark_job.columns.parquet_columns import column_names, open_parquet, read_groups, row_group_starts
from spark_job.columns.projection import Projection, field_id_of, project_column
from spark_job.distinct import distinct


class TooMuch(Exception):
    """The rows do not fit into the memory that they may take: ask for fewer."""


def read_rows(
    io: FileIO,
    files: Sequence[ChangeFile],
    file: NDArray[np.uint32],
    row: NDArray[np.uint32],
    ids: FieldMap,
    mirror: Schema,
    defaults: Absent | None = None,
    most_bytes: int | None = None,
) -> pa.Table:
    """The rows at (file, row), which must be ascending, one after the other.

    `defaults`: what columns hold that a file does not have, by its own field ids. Raises `TooMuch` where the rows, if
    they are several, take more than `most_bytes`.
    """
    target = schema_to_pyarrow(mirror)
    tables: list[pa.Table] = []
    held = 0
    for ordinal in distinct(file):
        listed = files[int(ordinal)]
        rows = row[file == ordinal].astype(np.int64)
        with open_parquet(io, listed.path, listed.events) as parquet:
            for table in read_picked(io, parquet, rows, projection_of(listed, ids, defaults), target):
                tables.append(table)
                held += table.nbytes
                if most_bytes is not None and held > most_bytes and len(row) > 1:
                    raise TooMuch
    return pa.concat_tables(tables)


def projection_of(file: ChangeFile, ids: FieldMap, defaults: Absent | None = None) -> Projection:
    """How the columns of a file become the mirror's."""
    absent = {**(defaults or {}), **dict(file.partition)}
    mapped = {ids[field_id]: value for field_id, value in absent.items() if field_id in ids}
    return Projection(file.path, ids, mapped)


def read_picked(
    io: FileIO, parquet: pq.ParquetFile, rows: NDArray[np.int64], by: Projection, target: pa.Schema
) -> Iterator[pa.Table]:
    """The rows of one file at these positions, ascending, a row group at a time; the others are not read."""
    path = by.path
    sources = source_columns(parquet, by)
    starts = row_group_starts(parquet)
    if int(rows[-1]) >= starts[-1]:
        raise Corrupt(f"{path}: has {starts[-1]} rows, but row {int(rows[-1])} was asked for")
    bounds = np.searchsorted(rows, starts)
    for group in range(parquet.num_row_groups):
        here = rows[bounds[group] : bounds[group + 1]] - starts[group]
        if not len(here):
            continue
        columns = list(sources.values())
        if not columns:
            yield project_rows(pa.table({}), len(here), sources, by, target)
            continue
        most = batch_rows(io, path, parquet, group, columns)
        if most is None:
            table = read_groups(parquet, path, [group], columns)
            yield project_rows(_pick(table, here), len(here), sources, by, target)
            continue
        first = 0
        for batch in parquet.iter_batches(most, row_groups=[group], columns=columns):
            start, end = np.searchsorted(here, [first, first + len(batch)])
            if start < end:
                table = pa.Table.from_batches([batch])
                rows_there = _pick(table, here[start:end] - first)
                yield project_rows(rows_there, rows_there.num_rows, sources, by, target)
            first += len(batch)
        if first != starts[group + 1] - starts[group]:
            raise Corrupt(f"{path}: the Parquet file is damaged: {first} rows were read of a row group")


def _pick(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """A row may be asked for twice: the end of one key and the beginning of another are one event."""
    whole = len(rows) == table.num_rows and bool((rows == np.arange(len(rows))).all())
    return table if whole else table.take(pa.array(rows))


def source_columns(parquet: pq.ParquetFile, by: Projection) -> dict[int, str]:
    """The mirror's field ids → the names of the file's columns."""
    names = column_names(parquet, by.path)
    return {by.ids[field_id]: name for field_id, name in names.items() if field_id in by.ids}


def project_rows(
    table: pa.Table, rows: int, sources: Mapping[int, str], by: Projection, target: pa.Schema
) -> pa.Table:
    """The columns of the mirror, found by its field ids; `rows`: a table without columns does not know how many."""
    columns: list[pa.ChunkedArray] = []
    for field in target:
        field_id = field_id_of(field, by.path)
        name = sources.get(field_id)
        if name is None:
            values = absent_values(field, rows, field_id, by.absent, by.path)
            columns.append(pa.chunked_array([values], field.type))
        else:
            columns.append(project_column(table[name], field.type, by))
    return pa.table(columns, schema=target)
