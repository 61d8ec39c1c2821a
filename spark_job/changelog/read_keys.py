"""Read the key values of events by position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import OLD_KEY_DELETE, EventBatch
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.arrays import Indices, invert_permutation
from spark_job.columns.distinct import distinct
from spark_job.columns.parquet_columns import open_parquet, read_rows_at
from spark_job.columns.physical_values import to_physical


def read_event_keys(
    io: FileIO, files: Sequence[ChangelogFile], shape: ChangelogShape, events: EventBatch, indices: Indices
) -> list[pa.Array]:
    """Return the key columns of the events at these indices, which must be ordered by (file, row)."""
    paths = [file.path for file in files]

    def read(key_ids: Sequence[int], selected: Indices) -> list[pa.Array]:
        file, row = events.file[selected].astype(np.int32), events.row[selected].astype(np.int64)
        return read_columns_at(io, paths, key_ids, file, row)

    has_old_key = events.has_flag(OLD_KEY_DELETE)[indices]
    if not has_old_key.any():
        return read(shape.key_ids, indices)
    new, old = np.flatnonzero(~has_old_key), np.flatnonzero(has_old_key)
    tables = [
        read(key_ids, indices[selected])
        for key_ids, selected in ((shape.key_ids, new), (shape.old_key_ids, old))
        if len(selected)
    ]
    original_order = pa.array(invert_permutation(np.concatenate([new, old])))
    return [pa.concat_arrays(columns).take(original_order) for columns in zip(*tables, strict=True)]


def read_columns_at(
    io: FileIO,
    paths: Sequence[str],
    field_ids: Sequence[int],
    file: NDArray[np.int32],
    row: NDArray[np.int64],
) -> list[pa.Array]:
    """Return columns at (file, row), which must be ascending."""
    tables: list[list[pa.Array]] = []
    for ordinal in distinct(file):
        path = paths[int(ordinal)]
        with open_parquet(io, path) as parquet:
            tables.append(read_rows_at(parquet, path, field_ids, row[file == ordinal]))
    return concat_columns(tables)


def concat_columns(tables: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    """Return the concatenated columns of several files, times as integers and text as bytes: files differ in both."""
    return [
        pa.concat_arrays([_as_bytes(chunk) for array in arrays for chunk in to_physical(array).chunks])
        for arrays in zip(*tables, strict=True)
    ]


def _as_bytes(chunk: pa.Array) -> pa.Array:
    return chunk.cast(pa.large_binary()) if pa.types.is_large_string(chunk.type) else chunk
