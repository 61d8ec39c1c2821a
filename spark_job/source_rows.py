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
from spark_job.change_file import ChangeFile
from spark_job.field_map import FieldMap
from spark_job.parquet_columns import column_names, open_parquet, read_groups, row_group_starts
from spark_job.projection import field_id_of, project_column


def read_rows(
    io: FileIO,
    files: Sequence[ChangeFile],
    file: NDArray[np.uint32],
    row: NDArray[np.uint32],
    ids: FieldMap,
    mirror: Schema,
) -> pa.Table:
    """The rows at (file, row), which must be ascending, one after the other."""
    target = schema_to_pyarrow(mirror)
    tables: list[pa.Table] = []
    for ordinal in np.unique(file):
        listed = files[int(ordinal)]
        rows = row[file == ordinal].astype(np.int64)
        with open_parquet(io, listed.path, listed.events) as parquet:
            tables.extend(_read_file(parquet, listed.path, rows, ids, target))
    return pa.concat_tables(tables)


def _read_file(
    parquet: pq.ParquetFile, path: str, rows: NDArray[np.int64], ids: FieldMap, target: pa.Schema
) -> Iterator[pa.Table]:
    """The rows of one file, a row group at a time; row groups without a winner are not read."""
    sources = {
        ids[field_id]: name for field_id, name in column_names(parquet, path).items() if field_id in ids
    }
    starts = row_group_starts(parquet)
    if int(rows[-1]) >= starts[-1]:
        raise Corrupt(f"{path}: has {starts[-1]} rows, but row {int(rows[-1])} was asked for")
    bounds = np.searchsorted(rows, starts)
    for group in range(parquet.num_row_groups):
        here = rows[bounds[group] : bounds[group + 1]] - starts[group]
        if not len(here):
            continue
        table = read_groups(parquet, path, [group], list(sources.values()))
        if len(here) < table.num_rows:
            table = table.take(pa.array(here))
        yield project_rows(table, path, sources, ids, target)


def project_rows(
    table: pa.Table, path: str, sources: Mapping[int, str], ids: FieldMap, target: pa.Schema
) -> pa.Table:
    """The columns of the mirror, found by its field ids; one that the file does not have is NULL."""
    columns: list[pa.ChunkedArray] = []
    for field in target:
        name = sources.get(field_id_of(field, path))
        if name is None:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
        else:
            columns.append(project_column(table[name], field.type, ids, path))
    return pa.table(columns, schema=target)
