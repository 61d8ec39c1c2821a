"""Soft deletes (`delete_mode: soft`): a delete sets the flag of its row and keeps the values.

A soft delete contains no new values. They come from the previous event, or from the mirror; for a key without a row,
from the delete itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import OLD_KEY_DELETE, EventBatch
from spark_job.changelog.event_columns import read_event_columns
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.field_map import FieldMap
from spark_job.columns.parquet_columns import open_parquet
from spark_job.columns.projection import read_field_id
from spark_job.merge.effects import EventEffects


def keep_deleted_rows(effects: EventEffects) -> EventEffects:
    """Return the effects with a flagged row in place of each tombstone."""
    return replace(
        effects,
        writes=effects.writes | effects.tombstones,
        tombstones=np.zeros_like(effects.tombstones),
        deleted=int(effects.tombstones.sum()),
        unchanged=effects.unchanged - int((effects.tombstones & ~effects.removes).sum()),
    )


def restore_old_keys(
    rows: pa.Table,
    winners: EventBatch,
    io: FileIO,
    files: Sequence[ChangelogFile],
    shape: ChangelogShape,
    field_map: FieldMap,
) -> pa.Table:
    """Return the rows of these events, sorted by (file, row), with the old key in those of `OLD_KEY_DELETE` events."""
    indices = np.flatnonzero(winners.has_flag(OLD_KEY_DELETE))
    if not len(indices):
        return rows
    column_indices = {read_field_id(field, ""): index for index, field in enumerate(rows.schema)}
    old_keys: list[list[pa.Array]] = [[] for _ in shape.key_ids]
    for ordinal in np.unique(winners.file[indices]):
        file = files[int(ordinal)]
        rows_in_file = winners.row[indices][winners.file[indices] == ordinal].astype(np.int64)
        with open_parquet(io, file.path, file.events) as parquet:
            event_columns = read_event_columns(parquet, file.path, shape, rows_in_file)
        for arrays, array in zip(old_keys, event_columns.old_keys, strict=True):
            arrays.append(array)
    # Old keys are appended to the column, and then selected in place of the new ones.
    selection = np.arange(rows.num_rows)
    selection[indices] = rows.num_rows + np.arange(len(indices))
    for key_id, arrays in zip(shape.key_ids, old_keys, strict=True):
        column_index = column_indices[field_map[key_id]]
        field, column = rows.schema.field(column_index), rows.column(column_index)
        chunks = [*column.chunks, *(_as_type(array, field.type) for array in arrays)]
        rows = rows.set_column(column_index, field, pa.chunked_array(chunks).take(pa.array(selection)))
    return rows


def _as_type(array: pa.Array, column_type: pa.DataType) -> pa.Array:
    if isinstance(column_type, pa.BaseExtensionType) and not isinstance(array.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(column_type, array.cast(column_type.storage_type))
    return array if array.type == column_type else array.cast(column_type)
