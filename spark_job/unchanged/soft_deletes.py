"""Deletes that keep their row (`delete_mode: soft`): the flag of the row changes, its values stay.

So a delete is a change of a row that tells no value. Its row is that of the event before it, or the mirror's; of a key
without a row it is what the delete itself carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import LEFT, Changes
from spark_job.changelog.narrow import read_narrow
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.columns.field_map import FieldMap
from spark_job.columns.parquet_columns import open_parquet
from spark_job.columns.projection import field_id_of
from spark_job.key_index.keys import Mask
from spark_job.locate import Fate


def keep_deleted(fate: Fate) -> Fate:
    """The same, with a row to write wherever a tombstone was to be left. Pure."""
    return replace(
        fate,
        writes=fate.writes | fate.tombstones,
        tombstones=np.zeros_like(fate.tombstones),
        deleted=int(fate.tombstones.sum()),
        unchanged=fate.unchanged - int((fate.tombstones & ~fate.removes).sum()),
    )


def are_deletes(changes: Changes) -> Mask:
    """Which of the events flag their row."""
    found: Mask = changes.operation == Operation.DELETE
    return found


def with_keys_left(
    rows: pa.Table,
    winners: Changes,
    io: FileIO,
    files: Sequence[ChangeFile],
    shape: ChangelogShape,
    ids: FieldMap,
) -> pa.Table:
    """The rows of these events, in the order (file, row). One whose key changed is flagged under its old key."""
    left = np.flatnonzero(winners.are(LEFT))
    if not len(left):
        return rows
    places = {field_id_of(field, ""): at for at, field in enumerate(rows.schema)}
    old: list[list[pa.Array]] = [[] for _ in shape.key_ids]
    for ordinal in np.unique(winners.file[left]):
        file = files[int(ordinal)]
        here = winners.row[left][winners.file[left] == ordinal].astype(np.int64)
        with open_parquet(io, file.path, file.events) as parquet:
            narrow = read_narrow(parquet, file.path, shape, here)
        for column, found in zip(old, narrow.old_keys, strict=True):
            column.append(found)
    taken = np.arange(rows.num_rows)
    taken[left] = rows.num_rows + np.arange(len(left))
    for key_id, found in zip(shape.key_ids, old, strict=True):
        at = places[ids[key_id]]
        field, column = rows.schema.field(at), rows.column(at)
        told = [_as_type(array, field.type) for array in found]
        rows = rows.set_column(at, field, pa.chunked_array([*column.chunks, *told]).take(pa.array(taken)))
    return rows


def _as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(array.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array.cast(kind.storage_type))
    return array if array.type == kind else array.cast(kind)
