"""Writes the rows of the winners: the changes that write a row."""

from __future__ import annotations

from typing import overload

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile

from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.memory_bounds import max_row_bytes
from spark_job.changelog.read_rows import RowsExceedMemory, read_rows
from spark_job.columns.arrays import invert_permutation
from spark_job.merge.effects import EventEffects
from spark_job.merge.locate import LocatedKeys
from spark_job.merge.metadata_columns import fill_metadata_columns
from spark_job.merge.shard_result import HistoryNeeded
from spark_job.merge.slice_work import SliceWork
from spark_job.merge.soft_deletes import restore_old_keys
from spark_job.merge.unchanged_values import ReadableEvents, UnchangedValues
from spark_job.write.data_files import NOTHING_WRITTEN, WrittenRows, write_rows
from spark_job.write.row_lineage import read_row_ids, with_row_ids


def write_winners(
    work: SliceWork,
    events: EventBatch,
    changes: EventBatch,
    located: LocatedKeys,
    effects: EventEffects,
    paths: list[str],
) -> WrittenRows | HistoryNeeded:
    """Write the rows of the changes that apply; return their locations, or `HistoryNeeded`.

    Adds every file to `paths` before it is written. `events`: all events of the shard, in which unchanged values are
    searched.
    """
    if not effects.writes.any():
        return NOTHING_WRITTEN
    row_ids = _read_kept_row_ids(work, located, effects)
    return write_event_rows(
        work, changes.take(effects.writes), paths, row_ids, _unchanged_values(work, events)
    )


def _read_kept_row_ids(work: SliceWork, located: LocatedKeys, effects: EventEffects) -> pa.Array | None:
    """Return the row ids to keep; None if all rows are new, or have no ids."""
    if work.first_row_ids is None or not (effects.writes & effects.removes).any():
        return None
    file, pos = located.file[effects.writes], located.pos[effects.writes]
    return read_row_ids(work.mirror_io, work.indexed_paths, work.first_row_ids, file, pos)


def _unchanged_values(work: SliceWork, events: EventBatch) -> UnchangedValues | None:
    """Return where to search for unchanged values; None if every event contains its whole row."""
    if not work.shape.keeps_values:
        return None
    return UnchangedValues(
        ReadableEvents(
            work.changelog_io,
            work.files,
            work.shape,
            work.field_map,
            events,
            max_row_bytes(sum(file.bytes for file in work.files)),
        ),
        work.mirror_io,
        work.index,
        work.indexed_files,
        work.metadata.schema(),
        work.history,
        work.newest_expired_tombstone_order,
        work.is_replay,
    )


@overload
def write_event_rows(work: SliceWork, winners: EventBatch, paths: list[str]) -> WrittenRows: ...


@overload
def write_event_rows(
    work: SliceWork,
    winners: EventBatch,
    paths: list[str],
    row_ids: pa.Array | None,
    unchanged: UnchangedValues | None,
) -> WrittenRows | HistoryNeeded: ...


def write_event_rows(
    work: SliceWork,
    winners: EventBatch,
    paths: list[str],
    row_ids: pa.Array | None = None,
    unchanged: UnchangedValues | None = None,
) -> WrittenRows | HistoryNeeded:
    """Write the rows of the winners, ascending by key; in halves if they take too much memory.

    Only unchanged values can need the history.
    """
    try:
        return _write_at_once(work, winners, paths, row_ids, unchanged)
    except RowsExceedMemory:
        halves = work.partition_sampler.split_by_partition(winners.file, winners.row)
    files: tuple[DataFile, ...] = ()
    file, pos = np.empty(len(winners), np.int32), np.empty(len(winners), np.int64)
    for half in halves:
        half_row_ids = None if row_ids is None else row_ids.take(pa.array(half))
        written = write_event_rows(work, winners.take(half), paths, half_row_ids, unchanged)
        if isinstance(written, HistoryNeeded):
            return written
        file[half], pos[half] = written.file + np.int32(len(files)), written.pos
        files += written.files
    return WrittenRows(files, file, pos)


def _write_at_once(
    work: SliceWork,
    winners: EventBatch,
    paths: list[str],
    row_ids: pa.Array | None,
    unchanged: UnchangedValues | None,
) -> WrittenRows | HistoryNeeded:
    """Read the winners' rows in file order. Write them ascending by key, if codes keep the order of keys.

    Consecutive keys then get consecutive positions, which the index stores as runs, and row groups can be skipped.
    """
    file_order = np.argsort(winners.positions)
    in_file_order = winners.take(file_order)
    rows = read_rows(
        work.changelog_io,
        work.files,
        in_file_order.file,
        in_file_order.row,
        work.field_map,
        work.metadata.schema(),
        work.shape.defaults,
        max_row_bytes(sum(file.bytes for file in work.files)),
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
        rows = with_row_ids(rows, row_ids.take(pa.array(file_order)))
    key_order = invert_permutation(file_order)
    if not work.shape.key_codec.is_lossless:
        written = write_rows(work.mirror_io, work.metadata, rows, paths)
        return WrittenRows(written.files, written.file[key_order], written.pos[key_order])
    if not bool((file_order == np.arange(len(file_order))).all()):
        rows = rows.take(pa.array(key_order))
    return write_rows(work.mirror_io, work.metadata, rows, paths)
