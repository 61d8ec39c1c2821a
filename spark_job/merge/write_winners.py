"""Writes the rows of the winning events, and the index segment that says where they are."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile

from spark_job.changelog.changes import Changes
from spark_job.changelog.memory_bounds import piece_bytes
from spark_job.changelog.read_rows import RowsExceedMemory, read_rows
from spark_job.index.keys import U64
from spark_job.index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.index.write_segment import write_segment
from spark_job.merge.locate import EventEffects, LocatedKeys
from spark_job.merge.metadata_columns import fill_metadata_columns
from spark_job.merge.shard_result import HistoryNeeded
from spark_job.merge.slice_work import SliceWork
from spark_job.merge.soft_deletes import restore_old_keys
from spark_job.merge.unchanged_values import EventHistory, UnchangedValues
from spark_job.write.data_files import NOTHING_WRITTEN, WrittenRows, write_rows
from spark_job.write.row_lineage import read_row_ids, with_row_ids


def write_winners(
    work: SliceWork,
    events: Changes,
    changes: Changes,
    located: LocatedKeys,
    effects: EventEffects,
    paths: list[str],
) -> WrittenRows | HistoryNeeded:
    """Write the rows of the changes that apply; add every file to `paths` before it is written.

    `events`: all events of the shard, in which unchanged values are searched.
    """
    if not effects.writes.any():
        return NOTHING_WRITTEN
    row_ids = _row_ids(work, located, effects)
    return write_rows_of(work, changes.take(effects.writes), paths, row_ids, _unchanged_values(work, events))


def _row_ids(work: SliceWork, located: LocatedKeys, effects: EventEffects) -> pa.Array | None:
    """Return the row ids to keep; None if all rows are new, or have no ids."""
    if work.first_row_ids is None or not (effects.writes & effects.removes).any():
        return None
    file, pos = located.file[effects.writes], located.pos[effects.writes]
    return read_row_ids(work.mirror_io, work.indexed_paths, work.first_row_ids, file, pos)


def _unchanged_values(work: SliceWork, events: Changes) -> UnchangedValues | None:
    """Return where to search for unchanged values; None if every event contains its whole row."""
    if not work.shape.keeps_values:
        return None
    return UnchangedValues(
        EventHistory(
            work.changelog_io,
            work.files,
            work.shape,
            work.field_map,
            events,
            piece_bytes(sum(file.bytes for file in work.files)),
        ),
        work.mirror_io,
        work.index,
        work.mirror_files,
        work.metadata.schema(),
        work.history,
        work.newest_expired_order,
        work.is_replay,
    )


def write_rows_of(
    work: SliceWork,
    winners: Changes,
    paths: list[str],
    row_ids: pa.Array | None = None,
    unchanged: UnchangedValues | None = None,
) -> WrittenRows | HistoryNeeded:
    """Write the rows of the winners, ascending by key; in halves where they take too much memory."""
    try:
        return _write_piece(work, winners, paths, row_ids, unchanged)
    except RowsExceedMemory:
        halves = work.spread.split_by_partition(winners.file, winners.row)
    files: tuple[DataFile, ...] = ()
    file, pos = np.empty(len(winners), np.int32), np.empty(len(winners), np.int64)
    for half in halves:
        ids = None if row_ids is None else row_ids.take(pa.array(half))
        written = write_rows_of(work, winners.take(half), paths, ids, unchanged)
        if isinstance(written, HistoryNeeded):
            return written
        file[half], pos[half] = written.file + np.int32(len(files)), written.pos
        files += written.files
    return WrittenRows(files, file, pos)


def _write_piece(
    work: SliceWork,
    winners: Changes,
    paths: list[str],
    row_ids: pa.Array | None,
    unchanged: UnchangedValues | None,
) -> WrittenRows | HistoryNeeded:
    """Read the winners' rows in file order, and write them ascending by key where keys have an order.

    Consecutive keys then get consecutive positions, which the index stores as runs, and row groups can be skipped.
    """
    by_source = np.argsort(winners.positions)
    in_file_order = winners.take(by_source)
    rows = read_rows(
        work.changelog_io,
        work.files,
        in_file_order.file,
        in_file_order.row,
        work.field_map,
        work.metadata.schema(),
        work.shape.defaults,
        piece_bytes(sum(file.bytes for file in work.files)),
    )
    if unchanged is not None:
        filled = unchanged.fill(in_file_order, rows)
        if isinstance(filled, HistoryNeeded):
            return filled
        rows = restore_old_keys(
            filled, in_file_order, work.changelog_io, work.files, work.shape, work.field_map
        )
    if work.metadata_values is not None:
        rows = fill_metadata_columns(work.metadata_values, rows, in_file_order, work.key_sources, work.index)
    if row_ids is not None:
        rows = with_row_ids(rows, row_ids.take(pa.array(by_source)))
    original_order = np.empty_like(by_source)
    original_order[by_source] = np.arange(len(by_source))
    if not work.shape.codec.lossless:
        written = write_rows(work.mirror_io, work.metadata, rows, paths)
        return WrittenRows(written.files, written.file[original_order], written.pos[original_order])
    if not bool((by_source == np.arange(len(by_source))).all()):
        rows = rows.take(pa.array(original_order))
    return write_rows(work.mirror_io, work.metadata, rows, paths)


def index_changes(
    work: SliceWork,
    changes: Changes,
    orders: U64,
    effects: EventEffects,
    written: WrittenRows,
    paths: list[str],
) -> SegmentInfo | None:
    """Write a segment with the new position or the tombstone of each changed key; None if no key changed."""
    changed = effects.writes | effects.tombstones
    if not changed.any():
        return None
    file = np.full(len(changes), TOMBSTONE, dtype=np.int32)
    pos = np.zeros(len(changes), dtype=np.int64)
    file[effects.writes] = written.file
    pos[effects.writes] = written.pos
    entries = Entries(changes.keys.take(changed), file[changed], pos[changed], orders[changed])
    data_paths = [data_file.file_path for data_file in written.files]
    path = f"{work.index_location}/{uuid.uuid4()}.segment.puffin"
    paths.append(path)
    return write_segment(
        work.mirror_io, path, entries, work.shape.key_definition, data_paths, tuple(range(len(data_paths)))
    )
