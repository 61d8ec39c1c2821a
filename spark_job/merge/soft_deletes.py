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

from spark_job.changelog.changes import OLD_KEY, Changes
from spark_job.changelog.event_columns import read_event_columns
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.columns.field_map import FieldMap
from spark_job.columns.parquet_columns import open_parquet
from spark_job.columns.projection import field_id_of
from spark_job.index.keys import Mask
from spark_job.merge.locate import EventEffects


def keep_deleted_rows(effects: EventEffects) -> EventEffects:
    """Return the effects with a flagged row in place of each tombstone. Pure."""
    return replace(
        effects,
        writes=effects.writes | effects.tombstones,
        tombstones=np.zeros_like(effects.tombstones),
        deleted=int(effects.tombstones.sum()),
        unchanged=effects.unchanged - int((effects.tombstones & ~effects.removes).sum()),
    )


def are_deletes(changes: Changes) -> Mask:
    """Return which events are deletes."""
    found: Mask = changes.operation == Operation.DELETE
    return found


def restore_old_keys(
    rows: pa.Table,
    winners: Changes,
    io: FileIO,
    files: Sequence[ChangelogFile],
    shape: ChangelogShape,
    ids: FieldMap,
) -> pa.Table:
    """Return the rows of these events, sorted by (file, row). An event with `OLD_KEY` gets the key it had before."""
    rekeyed = np.flatnonzero(winners.has_move(OLD_KEY))
    if not len(rekeyed):
        return rows
    column_of_id = {field_id_of(field, ""): at for at, field in enumerate(rows.schema)}
    old: list[list[pa.Array]] = [[] for _ in shape.key_ids]
    for ordinal in np.unique(winners.file[rekeyed]):
        file = files[int(ordinal)]
        here = winners.row[rekeyed][winners.file[rekeyed] == ordinal].astype(np.int64)
        with open_parquet(io, file.path, file.events) as parquet:
            narrow = read_event_columns(parquet, file.path, shape, here)
        for column, found in zip(old, narrow.old_keys, strict=True):
            column.append(found)
    taken = np.arange(rows.num_rows)
    taken[rekeyed] = rows.num_rows + np.arange(len(rekeyed))
    for key_id, found in zip(shape.key_ids, old, strict=True):
        at = column_of_id[ids[key_id]]
        field, column = rows.schema.field(at), rows.column(at)
        typed = [_as_type(array, field.type) for array in found]
        rows = rows.set_column(at, field, pa.chunked_array([*column.chunks, *typed]).take(pa.array(taken)))
    return rows


def _as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(array.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array.cast(kind.storage_type))
    return array if array.type == kind else array.cast(kind)
