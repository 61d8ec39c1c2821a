"""Moves the live rows of some data files into new ones, after checking each against the key index."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile

from icemirror.errors import REBUILD, Corrupt
from icemirror.processes.crash_points import reach
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
from spark_job.merge.locate import SearchableIndex, look_up_keys
from spark_job.storage.parallel import map_parallel
from spark_job.write.data_files import write_rows
from spark_job.write.row_lineage import materialize_lineage
from spark_job.write.vectors import deleted_positions

MAX_BYTES = 256 << 20
"""Decoded rows held at once; sorting and writing them takes as much again."""


class IndexMismatch(Corrupt):
    """The index points elsewhere than at the row: it does not match the table."""


@dataclass(frozen=True)
class MovedRows:
    """The new data files of a group, and their entries by key; `entries.file` counts within `data_files`."""

    group: FileGroup
    data_files: tuple[DataFile, ...]
    entries: Entries


def move_rows(
    mirror: Mirror, root: Root, shape: ChangelogShape, group: FileGroup, written: list[str]
) -> MovedRows:
    """Rewrite the live rows of these files; paths of new files are added to `written`.

    Raises `RowsExceedMemory` where the rows take more than `MAX_BYTES`.
    """
    table = mirror.table
    rows = _read(mirror, root, shape, group)
    if shape.is_keyless:
        return _write_in_order(mirror, group, rows, written)
    order = rows.keys.argsort()
    keys, file, pos = rows.keys.take(order), rows.file[order], rows.pos[order]
    newest = newest_order_in_index(root, shape.sequence.parts + 1)
    known = look_up_keys(SearchableIndex(table.io, root.segments, root.removed_ordinals), keys, newest)
    misplaced = np.flatnonzero((known.file != file) | (known.pos != pos))
    if len(misplaced):
        at = int(misplaced[0])
        raise IndexMismatch(
            f"the key index has no entry for row {int(pos[at])}; nothing was moved. To continue, {REBUILD}. The data "
            f"file: {root.files[int(file[at])].path}"
        )
    reach("write-moved")
    # Sorted by key, neighbouring entries become runs in the index, and readers can skip row groups.
    arranged = rows.table.take(pa.array(order)) if shape.codec.lossless else rows.table
    del rows
    new = write_rows(table.io, table.metadata, arranged, written)
    picked = slice(None) if shape.codec.lossless else order
    reach("moved-written")
    return MovedRows(group, new.files, Entries(keys, new.file[picked], new.pos[picked], known.orders))


def _write_in_order(mirror: Mirror, group: FileGroup, rows: _Rows, written: list[str]) -> MovedRows:
    """Write rows without a key in their order; the index has no entries for them."""
    reach("write-moved")
    new = write_rows(mirror.table.io, mirror.table.metadata, rows.table, written)
    reach("moved-written")
    orders = np.zeros((len(rows.pos), 1), dtype=np.uint64)
    return MovedRows(group, new.files, Entries(rows.keys, new.file, new.pos, orders))


@dataclass(frozen=True)
class _Rows:
    """Live rows with their keys and locations: the ordinal of the file in the root, and the position there."""

    table: pa.Table
    keys: Keys
    file: NDArray[np.int32]
    pos: NDArray[np.int64]


def _read(mirror: Mirror, root: Root, shape: ChangelogShape, group: FileGroup) -> _Rows:
    io, metadata = mirror.table.io, mirror.table.metadata
    schema, has_lineage = metadata.schema(), metadata.format_version >= 3
    if has_lineage:
        refuse_reserved_names(".".join(mirror.table.name()), schema)
        schema = with_lineage(schema)
    target = schema_to_pyarrow(schema)
    ids = {field_id: field_id for field_id in field_ids(schema.as_struct())}
    absent_in = MissingColumns(schema, metadata.specs())
    key_ids = [mirror.field_map[key_id] for key_id in shape.key_ids]
    deleted = deleted_positions(io, {file.path: file for file in group if file.deleted})
    ordinals = {file.path: ordinal for ordinal, file in enumerate(root.files)}
    budget = _MemoryBudget(MAX_BYTES)

    def read(file: LiveFile) -> _Rows:
        live = np.ones(file.rows, dtype=np.bool_)
        live[deleted.get(file.path, [])] = False
        pos = np.flatnonzero(live)
        absent = absent_in.values_in_file(file.spec_id, file.partition)
        with open_parquet(io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, key_ids) if key_ids else []
            pieces = read_selected_rows(io, parquet, pos, Projection(file.path, ids, absent), target)
            table = pa.concat_tables([target.empty_table(), *map(budget.reserve, pieces)])
        if has_lineage:
            table = materialize_lineage(table, file.first_row_id or 0, file.data_sequence_number, pos)
        picked = [column.take(pa.array(pos)) for column in columns]
        keys = shape.codec.encode(picked) if picked else Keys(np.zeros(len(pos), dtype=np.uint64))
        return _Rows(table, keys, np.full(len(pos), ordinals[file.path], dtype=np.int32), pos)

    parts = map_parallel(read, [file for file in group if file.rows > file.deleted], group[0].path)
    return _Rows(
        pa.concat_tables([part.table for part in parts]),
        concat_keys([part.keys for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
    )


class _MemoryBudget:
    """The memory that the rows of a group may take together, while several threads read its files."""

    def __init__(self, max_bytes: int) -> None:
        self._left, self._lock = max_bytes, Lock()

    def reserve(self, piece: pa.Table) -> pa.Table:
        """Return the piece; raises `RowsExceedMemory` if it does not fit."""
        with self._lock:
            self._left -= piece.nbytes
            if self._left < 0:
                raise RowsExceedMemory
        return piece
