"""Moves the live rows of some data files into new ones, after checking each against the key index."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile

from icemirror.errors import REBUILD_ADVICE, Corrupt
from icemirror.processes.crash_points import crash_point
from spark_job.changelog.read_rows import RowsExceedMemory, read_selected_rows
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.field_map import field_ids
from spark_job.columns.missing_columns import MissingColumns
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.columns.projection import Projection
from spark_job.iceberg.lineage_columns import refuse_reserved_names, with_lineage
from spark_job.iceberg.live_files import LiveFile
from spark_job.iceberg.mirror import Mirror
from spark_job.index.keys import Keys, concat_keys
from spark_job.index.root import Root
from spark_job.index.segment import Entries
from spark_job.maintenance.choose_files import FileGroup
from spark_job.maintenance.index_foreign_writes import newest_order_in_index
from spark_job.merge.locate import SearchableIndex, read_key_entries
from spark_job.storage.parallel import map_parallel
from spark_job.write.data_files import write_rows
from spark_job.write.read_deletes import read_deleted_positions
from spark_job.write.row_lineage import materialize_lineage

MAX_BYTES = 256 << 20
"""Decoded rows held at once; sorting and writing them takes as much again."""


class IndexMismatch(Corrupt):
    """The index points elsewhere than at the row: it does not match the table."""


@dataclass(frozen=True)
class MovedRows:
    """The new data files of a group, and their entries by key; `entries.file` counts within `data_files`.

    `entries` is None for a table without a key.
    """

    group: FileGroup
    data_files: tuple[DataFile, ...]
    entries: Entries | None


def move_rows(
    mirror: Mirror, root: Root, shape: ChangelogShape, group: FileGroup, written: list[str]
) -> MovedRows:
    """Rewrite the live rows of these files; paths of new files are added to `written`.

    Raise `RowsExceedMemory` if the rows take more than `MAX_BYTES`.
    """
    table = mirror.table
    rows = _read_live_rows(mirror, root, shape, group)
    if shape.is_keyless:
        return _write_in_order(mirror, group, rows, written)
    order = rows.keys.argsort()
    keys, file, pos = rows.keys.take(order), rows.file[order], rows.pos[order]
    newest = newest_order_in_index(root, shape.sequence.parts + 1)
    index_entries = read_key_entries(
        SearchableIndex(table.io, root.segments, root.removed_ordinals), keys, newest
    )
    misplaced = np.flatnonzero((index_entries.file != file) | (index_entries.pos != pos))
    if len(misplaced):
        index = int(misplaced[0])
        raise IndexMismatch(
            f"the key index points elsewhere than at row {int(pos[index])}; nothing was moved. To continue, "
            f"{REBUILD_ADVICE}. The data file: {root.files[int(file[index])].path}"
        )
    crash_point("write-moved")
    # Sorted by key, neighbouring entries become runs in the index, and readers can skip row groups.
    arranged = rows.table.take(pa.array(order)) if shape.key_codec.is_lossless else rows.table
    del rows
    new = write_rows(table.io, table.metadata, arranged, written)
    order_in_file = slice(None) if shape.key_codec.is_lossless else order
    crash_point("moved-written")
    entries = Entries(keys, new.file[order_in_file], new.pos[order_in_file], index_entries.orders)
    return MovedRows(group, new.files, entries)


def _write_in_order(mirror: Mirror, group: FileGroup, rows: _Rows, written: list[str]) -> MovedRows:
    """Write rows without a key in their order; the index has no entries for them."""
    crash_point("write-moved")
    new = write_rows(mirror.table.io, mirror.table.metadata, rows.table, written)
    crash_point("moved-written")
    return MovedRows(group, new.files, None)


@dataclass(frozen=True)
class _Rows:
    """Live rows with their keys and locations: the ordinal of the file in the root, and the position there."""

    table: pa.Table
    keys: Keys
    file: NDArray[np.int32]
    pos: NDArray[np.int64]


def _read_live_rows(mirror: Mirror, root: Root, shape: ChangelogShape, group: FileGroup) -> _Rows:
    """Read the live rows of a group. Raise `RowsExceedMemory` if they take more than `MAX_BYTES`."""
    io, metadata = mirror.table.io, mirror.table.metadata
    schema, has_lineage = metadata.schema(), metadata.format_version >= 3
    if has_lineage:
        refuse_reserved_names(".".join(mirror.table.name()), schema)
        schema = with_lineage(schema)
    target = schema_to_pyarrow(schema)
    field_map = {field_id: field_id for field_id in field_ids(schema.as_struct())}
    missing_columns = MissingColumns(schema, metadata.specs())
    key_ids = [mirror.field_map[key_id] for key_id in shape.key_ids]
    deleted = read_deleted_positions(io, {file.path: file for file in group if file.deleted_rows})
    ordinals = {file.path: ordinal for ordinal, file in enumerate(root.files)}
    budget = _MemoryBudget(MAX_BYTES)

    def read_file(file: LiveFile) -> _Rows:
        live = np.ones(file.rows, dtype=np.bool_)
        live[deleted.get(file.path, [])] = False
        pos = np.flatnonzero(live)
        defaults = missing_columns.values_in_file(file.spec_id, file.partition)
        with open_parquet(io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, key_ids) if key_ids else []
            pieces = read_selected_rows(io, parquet, pos, Projection(file.path, field_map, defaults), target)
            table = pa.concat_tables([target.empty_table(), *map(budget.reserve, pieces)])
        if has_lineage:
            table = materialize_lineage(table, file.first_row_id or 0, file.data_sequence_number, pos)
        live_keys = [column.take(pa.array(pos)) for column in columns]
        keys = shape.key_codec.encode(live_keys) if live_keys else Keys(np.zeros(len(pos), dtype=np.uint64))
        return _Rows(table, keys, np.full(len(pos), ordinals[file.path], dtype=np.int32), pos)

    rows_by_file = map_parallel(read_file, [file for file in group if file.live_rows > 0], group[0].path)
    return _Rows(
        pa.concat_tables([rows.table for rows in rows_by_file]),
        concat_keys([rows.keys for rows in rows_by_file]),
        np.concatenate([rows.file for rows in rows_by_file]),
        np.concatenate([rows.pos for rows in rows_by_file]),
    )


class _MemoryBudget:
    """The memory that the rows of a group may take together, while several threads read its files."""

    def __init__(self, max_bytes: int) -> None:
        self._remaining_bytes, self._lock = max_bytes, Lock()

    def reserve(self, piece: pa.Table) -> pa.Table:
        """Return the piece; raise `RowsExceedMemory` if it does not fit."""
        with self._lock:
            self._remaining_bytes -= piece.nbytes
            if self._remaining_bytes < 0:
                raise RowsExceedMemory
        return piece
