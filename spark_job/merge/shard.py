"""One shard of a slice: collapse → locate → write → index, from key tuples to files.

A small slice is one shard, in the job's process or in one Spark task. A large slice has one shard per key range.
Nothing here depends on Spark.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata

from icemirror.processes.crash_points import reach
from spark_job.changelog.changes import OLD_KEY, Changes, concat_changes, sort_by_position
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.memory_bounds import piece_bytes
from spark_job.changelog.read_rows import RowsExceedMemory, read_rows
from spark_job.changelog.rejected_rows import (
    RejectedRows,
    read_events,
    split_before_truncation,
    split_rejected,
)
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.field_map import FieldMap
from spark_job.index.key_codec import KeyCodec
from spark_job.index.keys import U64
from spark_job.index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.index.write_segment import write_segment
from spark_job.merge.collapse import collapse_changes
from spark_job.merge.key_check import KeySources, check_hash_collisions, check_located_keys
from spark_job.merge.late_events import (
    NeedsHistory,
    find_late_events,
    find_replay_changes,
    resolve_late_events,
)
from spark_job.merge.locate import ChangeEffects, Index, LocatedKeys, decide_effects, locate_keys
from spark_job.merge.metadata_columns import MetadataValues, fill_metadata_columns
from spark_job.merge.soft_deletes import keep_deleted_rows, restore_old_keys
from spark_job.merge.unchanged_values import EventHistory, UnchangedValues
from spark_job.storage.discard import discard_on_error
from spark_job.write.data_files import WrittenRows, write_rows
from spark_job.write.partition_spread import PartitionSpread
from spark_job.write.row_lineage import read_row_ids, with_row_ids

_HISTORY = ("snapshots", "snapshot_log", "metadata_log", "statistics", "partition_statistics")


@dataclass(frozen=True)
class SliceWork:
    """Everything a task needs to merge a slice; sent to the tasks."""

    changelog_io: FileIO
    mirror_io: FileIO
    files: tuple[ChangelogFile, ...]
    shape: ChangelogShape
    field_map: FieldMap
    metadata: TableMetadata
    index: Index
    indexed_paths: tuple[str, ...]
    index_location: str
    key_check_rows: int | None
    expired: tuple[int, ...] | None = None  # the newest expired tombstone
    history: tuple[ChangelogFile, ...] | None = None  # the changelog before this slice, if it is needed
    replay: bool = False
    first_row_ids: tuple[int | None, ...] | None = None  # of the indexed files; None below format v3
    # The indexed files, if rows may keep values of the rows that they replace.
    old_files: tuple[ChangelogFile, ...] = ()
    own: MetadataValues | None = None  # of the columns that only the mirror has

    @property
    def background(self) -> tuple[ChangelogFile, ...]:
        """The changelog before this slice, if it is needed."""
        return self.history or ()

    @property
    def codec(self) -> KeyCodec:
        """The encoding of keys."""
        return self.shape.codec

    def source(self, file: ChangelogFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the changelog's storage, and the field ids of its key."""
        return self.changelog_io, self.shape.key_ids

    @property
    def target(self) -> FileIO:
        """The mirror's storage."""
        return self.mirror_io

    def read(self, ordinals: range) -> Changes:
        """Return the events of some files; rejected events of a file come after the others."""
        return concat_changes(
            [read_events(self.changelog_io, self.files[ordinal], ordinal, self.shape) for ordinal in ordinals]
        )

    def most_shards(self, wanted: int) -> int:
        """Return `wanted`, or fewer shards where each would write many small files."""
        return self.spread.most_shards(wanted)

    @property
    def spread(self) -> PartitionSpread:
        """How rows are distributed over the mirror's partitions."""
        return PartitionSpread(self.changelog_io, self.files, self.shape, self.field_map, self.metadata)

    def merge(self, read: Callable[[], Changes]) -> ShardResult:
        """Merge the events that `read` returns. Deletes its files if it fails."""
        return merge_shard(self, read)

    def orders(self, changes: Changes) -> U64:
        """Return the order of each change: sequence and changelog snapshot."""
        snapshots = np.array([file.sequence_number for file in self.files], dtype=np.uint64)
        return np.column_stack([changes.sequence, snapshots[changes.file]])


def strip_snapshots(metadata: TableMetadata) -> TableMetadata:
    """Return the metadata without snapshots, which are most of it and which tasks do not need."""
    lists: dict[str, list[object]] = {name: [] for name in _HISTORY}
    return metadata.model_copy(update={**lists, "refs": {}, "current_snapshot_id": None})


@dataclass(frozen=True)
class ShardResult:
    """What a shard wrote, and the old rows to delete. Not `indexed`: its rows have no key."""

    events: int
    fate: ChangeEffects
    data_files: tuple[DataFile, ...]
    spec_ids: tuple[int, ...]
    segment: SegmentInfo | None
    removed_file: NDArray[np.int32]
    removed_pos: NDArray[np.int64]
    seconds: dict[str, float] = field(default_factory=dict)
    indexed: bool = True
    rejected: RejectedRows = field(default_factory=RejectedRows)

    @property
    def paths(self) -> list[str]:
        """Every file that the shard wrote."""
        segment = [self.segment.path] if self.segment else []
        return [file.file_path for file in self.data_files] + segment


def merge_shard(work: SliceWork, read: Callable[[], Changes]) -> ShardResult:
    """Merge the events that `read` returns. Deletes its files if it fails."""
    seconds: dict[str, float] = {}
    with _timed(seconds, "collapse"):
        events, outdated = split_before_truncation(read())
        events, rejected = split_rejected(sort_by_position(events))
        check_hash_collisions(_key_sources(work), events, work.key_check_rows)
        changes = collapse_changes(events)
    with _timed(seconds, "locate"):
        orders = work.orders(changes)
        located = locate_keys(work.index, changes.keys, orders)
        located = _settle(work, changes, orders, located)
        effects = decide_effects(changes, located, replay=work.replay)
        effects = keep_deleted_rows(effects) if work.shape.keeps_deleted_rows else effects
        effects = replace(effects, stale=effects.stale + outdated)
        _check(work, changes, located, effects)
    written = WrittenRows((), np.empty(0, np.int32), np.empty(0, np.int64))
    with discard_on_error(work.mirror_io) as paths:
        with _timed(seconds, "write"):
            reach("write-data")
            if effects.writes.any():
                row_ids = _row_ids(work, located, effects)
                written = write_changes(
                    work, changes.take(effects.writes), row_ids, paths, _unchanged_values(work, events)
                )
            reach("data-written")
        with _timed(seconds, "index"):
            segment = _index(work, changes, orders, effects, written, paths)
            reach("segment-written")
    return ShardResult(
        events=len(events) - int(events.are(OLD_KEY).sum()),
        fate=effects,
        data_files=written.files,
        spec_ids=tuple(file.spec_id for file in written.files),
        segment=segment,
        removed_file=located.file[effects.removes],
        removed_pos=located.pos[effects.removes],
        seconds=seconds,
        rejected=rejected,
    )


def _settle(work: SliceWork, changes: Changes, orders: U64, located: LocatedKeys) -> LocatedKeys:
    if work.replay:
        located, in_question = find_replay_changes(orders, located, work.expired)
    else:
        in_question = find_late_events(orders, located, work.expired)
    if not in_question.any():
        return located
    if work.history is None:
        why = "would change" if work.replay else "may have had tombstones that have expired"
        raise NeedsHistory(f"{int(in_question.sum())} keys {why}")
    ranks = _ranks(work, work.history)[changes.file] if work.replay else None
    return resolve_late_events(
        work.changelog_io, work.history, work.shape, changes, orders, located, in_question, ranks
    )


def _ranks(work: SliceWork, history: tuple[ChangelogFile, ...]) -> NDArray[np.int64]:
    """Return the index of each file of a replay in the history."""
    places = {file.path: at for at, file in enumerate(history)}
    return np.array([places.get(file.path, -1) for file in work.files], dtype=np.int64)


def _check(work: SliceWork, changes: Changes, located: LocatedKeys, effects: ChangeEffects) -> None:
    rows = np.flatnonzero(effects.removes)
    check_located_keys(_key_sources(work), changes, rows, located.file, located.pos, work.key_check_rows)


def _key_sources(work: SliceWork) -> KeySources:
    key_ids = tuple(work.field_map[key_id] for key_id in work.shape.key_ids)
    return KeySources(work.changelog_io, work.files, work.shape, work.mirror_io, work.indexed_paths, key_ids)


def _row_ids(work: SliceWork, located: LocatedKeys, effects: ChangeEffects) -> pa.Array | None:
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
        work.old_files,
        work.metadata.schema(),
        work.history,
        work.expired,
        work.replay,
    )


def write_changes(
    work: SliceWork, winners: Changes, row_ids: pa.Array | None, paths: list[str], old: UnchangedValues | None
) -> WrittenRows:
    """Write the rows of the winners, ascending by key; in halves where they take too much memory."""
    try:
        return _write_piece(work, winners, row_ids, paths, old)
    except RowsExceedMemory:
        here, there = work.spread.halves(winners.file, winners.row)
    first, second = (
        write_changes(
            work, winners.take(half), None if row_ids is None else row_ids.take(pa.array(half)), paths, old
        )
        for half in (here, there)
    )
    file, pos = np.empty(len(winners), np.int32), np.empty(len(winners), np.int64)
    file[here], file[there] = first.file, second.file + np.int32(len(first.files))
    pos[here], pos[there] = first.pos, second.pos
    return WrittenRows((*first.files, *second.files), file, pos)


def _write_piece(
    work: SliceWork, winners: Changes, row_ids: pa.Array | None, paths: list[str], old: UnchangedValues | None
) -> WrittenRows:
    """Read the winners' rows in file order, and write them ascending by key where keys have an order.

    Consecutive keys then get consecutive positions, which the index stores as runs and readers skip by.
    """
    by_source = np.argsort(winners.places)
    rows = read_rows(
        work.changelog_io,
        work.files,
        winners.file[by_source],
        winners.row[by_source],
        work.field_map,
        work.metadata.schema(),
        work.shape.defaults,
        piece_bytes(sum(file.bytes for file in work.files)),
    )
    if old is not None:
        rows = old.fill(winners.take(by_source), rows)
        rows = restore_old_keys(
            rows, winners.take(by_source), work.changelog_io, work.files, work.shape, work.field_map
        )
    if work.own is not None:
        rows = fill_metadata_columns(work.own, rows, winners.take(by_source), _key_sources(work), work.index)
    if row_ids is not None:
        rows = with_row_ids(rows, row_ids.take(pa.array(by_source)))
    place = np.empty_like(by_source)
    place[by_source] = np.arange(len(by_source))
    if not work.shape.codec.lossless:
        written = write_rows(work.mirror_io, work.metadata, rows, paths)
        return WrittenRows(written.files, written.file[place], written.pos[place])
    if not bool((by_source == np.arange(len(by_source))).all()):
        rows = rows.take(pa.array(place))
    return write_rows(work.mirror_io, work.metadata, rows, paths)


def _index(
    work: SliceWork,
    changes: Changes,
    orders: U64,
    effects: ChangeEffects,
    written: WrittenRows,
    noted: list[str],
) -> SegmentInfo | None:
    known = effects.writes | effects.tombstones
    if not known.any():
        return None
    file = np.full(len(changes), TOMBSTONE, dtype=np.int32)
    pos = np.zeros(len(changes), dtype=np.int64)
    file[effects.writes] = written.file
    pos[effects.writes] = written.pos
    entries = Entries(changes.keys.take(known), file[known], pos[known], orders[known])
    paths = [data_file.file_path for data_file in written.files]
    path = f"{work.index_location}/{uuid.uuid4()}.segment.puffin"
    noted.append(path)
    return write_segment(
        work.mirror_io, path, entries, work.shape.key_definition, paths, tuple(range(len(paths)))
    )


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[step] = time.perf_counter() - began
