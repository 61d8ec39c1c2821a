"""Materialise: the winning rows, read from their changelog files by position, in the mirror's schema."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from icemirror.errors import Corrupt
from spark_job.change_file import ChangeFile
from spark_job.field_map import FieldMap, through_map
from spark_job.iceberg.seams import project, schema_of
from spark_job.parquet_columns import column_names, open_parquet, row_group_starts


def read_rows(
    io: FileIO,
    files: Sequence[ChangeFile],
    file: NDArray[np.uint32],
    row: NDArray[np.uint32],
    ids: FieldMap,
    mirror: Schema,
) -> pa.Table:
    """The rows at (file, row), which must be ascending, one after the other."""
    batches: list[pa.RecordBatch] = []
    for ordinal in np.unique(file):
        path = files[int(ordinal)].path
        rows = row[file == ordinal].astype(np.int64)
        with open_parquet(io, path) as parquet:
            batches.extend(_read_file(parquet, path, rows, ids, mirror))
    return pa.Table.from_batches(batches)


def _read_file(
    parquet: pq.ParquetFile, path: str, rows: NDArray[np.int64], ids: FieldMap, mirror: Schema
) -> list[pa.RecordBatch]:
    wanted = [name for field_id, name in column_names(parquet, path).items() if field_id in ids]
    starts = row_group_starts(parquet)
    if int(rows[-1]) >= starts[-1]:
        raise Corrupt(f"{path}: has {starts[-1]} rows, but row {int(rows[-1])} was asked for")
    bounds = np.searchsorted(rows, starts)
    batches: list[pa.RecordBatch] = []
    for group in range(parquet.num_row_groups):
        here = rows[bounds[group] : bounds[group + 1]] - starts[group]
        if not len(here):
            continue
        table = parquet.read_row_group(group, columns=wanted)
        if len(here) < table.num_rows:
            table = table.take(pa.array(here))
        file_schema = through_map(schema_of(table.schema), ids)
        batches.extend(project(batch, file_schema, mirror) for batch in table.combine_chunks().to_batches())
    return batches
