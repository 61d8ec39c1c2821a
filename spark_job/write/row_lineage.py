"""Row lineage (format v3): an updated row keeps the `_row_id` of the row that it replaces.

A row's id is the value of the column `_row_id` in its file. If that is NULL or missing, it is the file's first row id
plus the row's position. New rows have NULL, and the snapshot assigns their ids.
Spec: https://iceberg.apache.org/spec/#row-lineage
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt
from spark_job.columns.arrays import Indices
from spark_job.columns.parquet_columns import column_names, open_parquet, read_rows_at
from spark_job.columns.projection import FIELD_ID
from spark_job.iceberg.lineage_columns import LINEAGE_COLUMNS, ROW_ID
from spark_job.storage.parallel import map_parallel


def read_row_ids(
    io: FileIO,
    paths: Sequence[str],
    first_row_ids: Sequence[int | None],
    file: NDArray[np.int32],
    pos: NDArray[np.int64],
) -> pa.Array:
    """Return the ids of the rows at (file, pos), in any order; NULL for file < 0, or if a row has no id."""
    ids = np.zeros(len(file), dtype=np.int64)
    has_id = np.zeros(len(file), dtype=np.bool_)
    order = np.lexsort((pos, file))
    order = order[file[order] >= 0]
    ordinals, starts = np.unique(file[order], return_index=True)

    def read(group: tuple[int, Indices]) -> None:
        ordinal, rows = group
        first_row_id = first_row_ids[ordinal]
        if first_row_id is not None:
            ids[rows] = first_row_id + pos[rows]
            has_id[rows] = True
        stored_ids = _read_stored_ids(io, paths[ordinal], pos[rows])
        if stored_ids is not None:
            valid = stored_ids.is_valid().to_numpy(zero_copy_only=False)
            ids[rows[valid]] = stored_ids.drop_null().to_numpy()
            has_id[rows[valid]] = True

    groups = list(zip(ordinals.tolist(), np.split(order, starts[1:]), strict=True)) if len(ordinals) else []
    map_parallel(read, groups, paths[groups[0][0]] if groups else "")
    return pa.array(ids, mask=~has_id)


def _read_stored_ids(io: FileIO, path: str, positions: NDArray[np.int64]) -> pa.Array | None:
    """Return the ids that the file stores at these positions, which must be ascending; None if it stores none."""
    with open_parquet(io, path) as parquet:
        if ROW_ID not in column_names(parquet, path):
            return None
        (stored_ids,) = read_rows_at(parquet, path, (ROW_ID,), positions)
    return stored_ids


def materialize_lineage(
    rows: pa.Table, first_row_id: int, sequence_number: int, positions: NDArray[np.int64]
) -> pa.Table:
    """Return the rows with the lineage that they inherit from their file as values: they move to another file."""
    inherited = {
        "_row_id": pa.array(first_row_id + positions),
        "_last_updated_sequence_number": pa.scalar(sequence_number),
    }
    for name, value in inherited.items():
        column = rows.column_names.index(name)
        rows = rows.set_column(column, rows.field(column), pc.coalesce(rows[name], value))
    return rows


def with_row_ids(rows: pa.Table, row_ids: pa.Array) -> pa.Table:
    """Return the rows with their ids; the sequence number of their last change is inherited from the file."""
    if len(row_ids) != rows.num_rows:
        raise Corrupt(f"{len(row_ids)} row ids for {rows.num_rows} rows")
    for (name, field_id), values in zip(
        LINEAGE_COLUMNS.items(), (row_ids, pa.nulls(rows.num_rows, pa.int64())), strict=True
    ):
        rows = rows.append_column(pa.field(name, pa.int64(), metadata={FIELD_ID: str(field_id)}), values)
    return rows
