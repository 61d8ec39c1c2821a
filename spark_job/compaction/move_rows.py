"""Moves the live rows of some data files into new ones, each by its exact place in the key index."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile

from icemirror.crash import reach
from icemirror.errors import REBUILD, Corrupt
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.source_rows import TooMuch, read_picked
from spark_job.columns.absent import AbsentIn
from spark_job.columns.field_map import field_ids
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.columns.projection import Projection
from spark_job.compaction.choose import Group
from spark_job.files.round_trips import for_each
from spark_job.iceberg.lineage_columns import require_free_names, with_lineage
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.view import LiveFile
from spark_job.index_upkeep.catch_up import greatest_order
from spark_job.key_index.keys import Keys, concat_keys
from spark_job.key_index.root import Root
from spark_job.key_index.segment import Entries
from spark_job.locate import Index, look_up
from spark_job.write.data_files import write_rows
from spark_job.write.row_lineage import settle_lineage
from spark_job.write.vectors import deleted_positions

MOST_BYTES = 256 << 20
"""Of unpacked rows that are held at once; sorting and writing them takes as much again."""


class AstrayRow(Corrupt):
    """The index has another place for a row than that where it is: what it says of the table is not so."""


@dataclass(frozen=True)
class MovedRows:
    """The new data files of a group, and where the rows are in them, by key; files are counted from these."""

    group: Group
    data_files: tuple[DataFile, ...]
    entries: Entries


def move_rows(
    mirror: Mirror, root: Root, shape: ChangelogShape, group: Group, written: list[str]
) -> MovedRows:
    """Writes the live rows of these files anew. Paths are noted in `written`.

    Raises `TooMuch` where the rows take more memory than they may.
    """
    table = mirror.table
    rows = _read(mirror, root, shape, group)
    if shape.is_keyless:
        return _write_as_they_are(mirror, group, rows, written)
    order = rows.keys.argsort()
    keys, file, pos = rows.keys.take(order), rows.file[order], rows.pos[order]
    newest = greatest_order(root, shape.sequence.parts + 1)
    known = look_up(Index(table.io, root.segments, root.gone), keys, newest)
    astray = np.flatnonzero((known.file != file) | (known.pos != pos))
    if len(astray):
        at = int(astray[0])
        raise AstrayRow(
            f"{root.files[int(file[at])].path}: the key index does not know row {int(pos[at])} at its place; nothing "
            f"was moved. To go on, {REBUILD}."
        )
    reach("write-moved")
    # Neighbouring keys at neighbouring positions: the index stores them as runs, and readers skip by them.
    arranged = rows.table.take(pa.array(order)) if shape.codec.lossless else rows.table
    del rows
    new = write_rows(table.io, table.metadata, arranged, written)
    place = slice(None) if shape.codec.lossless else order
    reach("moved-written")
    return MovedRows(group, new.files, Entries(keys, new.file[place], new.pos[place], known.orders))


def _write_as_they_are(mirror: Mirror, group: Group, rows: _Rows, written: list[str]) -> MovedRows:
    """Rows without a key, in their order; nothing points at them."""
    reach("write-moved")
    new = write_rows(mirror.table.io, mirror.table.metadata, rows.table, written)
    reach("moved-written")
    orders = np.zeros((len(rows.pos), 1), dtype=np.uint64)
    return MovedRows(group, new.files, Entries(rows.keys, new.file, new.pos, orders))


@dataclass(frozen=True)
class _Rows:
    """Live rows, their keys, and where each is: the ordinal of its file in the root, and its position."""

    table: pa.Table
    keys: Keys
    file: NDArray[np.int32]
    pos: NDArray[np.int64]


def _read(mirror: Mirror, root: Root, shape: ChangelogShape, group: Group) -> _Rows:
    io, metadata = mirror.table.io, mirror.table.metadata
    schema, has_lineage = metadata.schema(), metadata.format_version >= 3
    if has_lineage:
        require_free_names(".".join(mirror.table.name()), schema)
        schema = with_lineage(schema)
    target = schema_to_pyarrow(schema)
    ids = {one: one for one in field_ids(schema.as_struct())}
    absent_in = AbsentIn(schema, metadata.specs())
    key_ids = [mirror.field_map[key_id] for key_id in shape.key_ids]
    deleted = deleted_positions(io, {file.path: file for file in group if file.deleted})
    ordinals = {file.path: ordinal for ordinal, file in enumerate(root.files)}
    budget = _Budget(MOST_BYTES)

    def read(file: LiveFile) -> _Rows:
        live = np.ones(file.rows, dtype=np.bool_)
        live[deleted.get(file.path, [])] = False
        pos = np.flatnonzero(live)
        absent = absent_in.of(file.spec_id, file.partition)
        with open_parquet(io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, key_ids) if key_ids else []
            pieces = read_picked(io, parquet, pos, Projection(file.path, ids, absent), target)
            table = pa.concat_tables([target.empty_table(), *map(budget.spend_on, pieces)])
        if has_lineage:
            table = settle_lineage(table, file.first_row_id or 0, file.number, pos)
        picked = [column.take(pa.array(pos)) for column in columns]
        keys = shape.codec.encode(picked) if picked else Keys(np.zeros(len(pos), dtype=np.uint64))
        return _Rows(table, keys, np.full(len(pos), ordinals[file.path], dtype=np.int32), pos)

    parts = for_each(read, [file for file in group if file.rows > file.deleted], group[0].path)
    return _Rows(
        pa.concat_tables([part.table for part in parts]),
        concat_keys([part.keys for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
    )


class _Budget:
    """The memory that the rows of all files of a group may take together, however many are read at once."""

    def __init__(self, most_bytes: int) -> None:
        self._left, self._lock = most_bytes, Lock()

    def spend_on(self, piece: pa.Table) -> pa.Table:
        """The piece, if there is room for it."""
        with self._lock:
            self._left -= piece.nbytes
            if self._left < 0:
                raise TooMuch
        return piece
