"""One shard of a slice: collapse → locate → write → index, from key tuples to files.

A small slice is one shard, in the job's own process or in one Spark task; a large one is cut by key range. Everything
here runs without Spark.
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

from icemirror.crash import reach
from spark_job.changelog.bulk import piece_bytes
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import LEFT, Changes, concat_changes, in_order
from spark_job.changelog.rejected import Rejected, read_events, split_outdated, split_rejected
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.source_rows import TooMuch, read_rows
from spark_job.collapse import collapse_changes
from spark_job.columns.field_map import FieldMap
from spark_job.doubtful import NeedsHistory, find_doubtful, find_news, settle
from spark_job.files.written import written_before_commit
from spark_job.key_check import KeySides, check_events, check_keys
from spark_job.key_index.codec import KeyCodec
from spark_job.key_index.keys import U64
from spark_job.key_index.segment import TOMBSTONE, Entries, SegmentInfo, write_segment
from spark_job.locate import Fate, Index, Located, decide, locate_keys
from spark_job.own_values import OwnValues
from spark_job.unchanged.old_values import OldValues, Story
from spark_job.unchanged.soft_deletes import keep_deleted, with_keys_left
from spark_job.write.data_files import WrittenRows, write_rows
from spark_job.write.row_lineage import old_row_ids, with_row_ids
from spark_job.write.spread import Spread

_HISTORY = ("snapshots", "snapshot_log", "metadata_log", "statistics", "partition_statistics")


@dataclass(frozen=True)
class SliceWork:
    """All that a task needs to know of a slice; sent to the tasks."""

    changelog_io: FileIO
    mirror_io: FileIO
    files: tuple[ChangeFile, ...]
    shape: ChangelogShape
    field_map: FieldMap
    metadata: TableMetadata
    index: Index
    indexed_paths: tuple[str, ...]
    index_location: str
    key_check_rows: int | None
    expired: tuple[int, ...] | None = None  # the newest tombstone that is forgotten
    history: tuple[ChangeFile, ...] | None = None  # the changelog before this slice, where it had to be asked
    replay: bool = False
    first_row_ids: tuple[int | None, ...] | None = None  # of the indexed files; None below format v3
    old_files: tuple[
        ChangeFile, ...
    ] = ()  # the indexed files, where rows may keep values of those that they replace
    own: OwnValues | None = None  # of the columns that the mirror has beyond the changelog's

    @property
    def background(self) -> tuple[ChangeFile, ...]:
        """The changelog before this slice, where it has to be asked."""
        return self.history or ()

    @property
    def codec(self) -> KeyCodec:
        """How keys are encoded."""
        return self.shape.codec

    def source(self, file: ChangeFile) -> tuple[FileIO, tuple[int, ...]]:
        """The changelog, and the field ids of its key."""
        return self.changelog_io, self.shape.key_ids

    @property
    def target(self) -> FileIO:
        """The mirror."""
        return self.mirror_io

    def read(self, ordinals: range) -> Changes:
        """The events of some files of the slice, those that are rejected after the others of their file."""
        return concat_changes(
            [read_events(self.changelog_io, self.files[ordinal], ordinal, self.shape) for ordinal in ordinals]
        )

    def most_shards(self, wanted: int) -> int:
        """As many shards as wanted, or fewer where each would write many small files."""
        return self.spread.most_shards(wanted)

    @property
    def spread(self) -> Spread:
        """How rows are spread over the mirror's partitions."""
        return Spread(self.changelog_io, self.files, self.shape, self.field_map, self.metadata)

    def merge(self, read: Callable[[], Changes]) -> ShardResult:
        """Merges the events that `read` gives; files of a failed attempt are removed again."""
        return merge_shard(self, read)

    def orders(self, changes: Changes) -> U64:
        """Sequence and changelog snapshot of each change."""
        snapshots = np.array([file.sequence_number for file in self.files], dtype=np.uint64)
        return np.column_stack([changes.sequence, snapshots[changes.file]])


def without_history(metadata: TableMetadata) -> TableMetadata:
    """What tasks need of a table's metadata: not the snapshots, which are most of it."""
    lists: dict[str, list[object]] = {name: [] for name in _HISTORY}
    return metadata.model_copy(update={**lists, "refs": {}, "current_snapshot_id": None})


@dataclass(frozen=True)
class ShardResult:
    """What a shard wrote, and the old rows that must go. Not `indexed`: its rows have no key to be found by."""

    events: int
    fate: Fate
    data_files: tuple[DataFile, ...]
    spec_ids: tuple[int, ...]
    segment: SegmentInfo | None
    removed_file: NDArray[np.int32]
    removed_pos: NDArray[np.int64]
    seconds: dict[str, float] = field(default_factory=dict)
    indexed: bool = True
    rejected: Rejected = field(default_factory=Rejected)

    @property
    def paths(self) -> list[str]:
        """Every file that the shard wrote."""
        segment = [self.segment.path] if self.segment else []
        return [file.file_path for file in self.data_files] + segment


def merge_shard(work: SliceWork, read: Callable[[], Changes]) -> ShardResult:
    """Merges the events that `read` gives; files of a failed attempt are removed again."""
    seconds: dict[str, float] = {}
    with _timed(seconds, "collapse"):
        events, outdated = split_outdated(read())
        events, rejected = split_rejected(in_order(events))
        check_events(_sides(work), events, work.key_check_rows)
        changes = collapse_changes(events)
    with _timed(seconds, "locate"):
        orders = work.orders(changes)
        located = locate_keys(work.index, changes.keys, orders)
        located = _settle(work, changes, orders, located)
        fate = decide(changes, located, replay=work.replay)
        fate = keep_deleted(fate) if work.shape.keeps_deleted else fate
        fate = replace(fate, stale=fate.stale + outdated)
        _check(work, changes, located, fate)
    written = WrittenRows((), np.empty(0, np.int32), np.empty(0, np.int64))
    with written_before_commit(work.mirror_io) as paths:
        with _timed(seconds, "write"):
            reach("write-data")
            if fate.writes.any():
                row_ids = _row_ids(work, located, fate)
                written = write_changes(
                    work, changes.take(fate.writes), row_ids, paths, _old_values(work, events)
                )
            reach("data-written")
        with _timed(seconds, "index"):
            segment = _index(work, changes, orders, fate, written, paths)
            reach("segment-written")
    return ShardResult(
        events=len(events) - int(events.are(LEFT).sum()),
        fate=fate,
        data_files=written.files,
        spec_ids=tuple(file.spec_id for file in written.files),
        segment=segment,
        removed_file=located.file[fate.removes],
        removed_pos=located.pos[fate.removes],
        seconds=seconds,
        rejected=rejected,
    )


def _settle(work: SliceWork, changes: Changes, orders: U64, located: Located) -> Located:
    if work.replay:
        located, doubtful = find_news(orders, located, work.expired)
    else:
        doubtful = find_doubtful(orders, located, work.expired)
    if not doubtful.any():
        return located
    if work.history is None:
        why = "have news" if work.replay else "may have had tombstones that have expired"
        raise NeedsHistory(f"{int(doubtful.sum())} keys {why}")
    ranks = _ranks(work, work.history)[changes.file] if work.replay else None
    return settle(work.changelog_io, work.history, work.shape, changes, orders, located, doubtful, ranks)


def _ranks(work: SliceWork, history: tuple[ChangeFile, ...]) -> NDArray[np.int64]:
    """Where the files of a replay stand in the history."""
    places = {file.path: at for at, file in enumerate(history)}
    return np.array([places.get(file.path, -1) for file in work.files], dtype=np.int64)


def _check(work: SliceWork, changes: Changes, located: Located, fate: Fate) -> None:
    rows = np.flatnonzero(fate.removes)
    check_keys(_sides(work), changes, rows, located.file, located.pos, work.key_check_rows)


def _sides(work: SliceWork) -> KeySides:
    key_ids = tuple(work.field_map[key_id] for key_id in work.shape.key_ids)
    return KeySides(work.changelog_io, work.files, work.shape, work.mirror_io, work.indexed_paths, key_ids)


def _row_ids(work: SliceWork, located: Located, fate: Fate) -> pa.Array | None:
    """The ids that the rows to write keep; None where all of them are new, or rows have none."""
    if work.first_row_ids is None or not (fate.writes & fate.removes).any():
        return None
    file, pos = located.file[fate.writes], located.pos[fate.writes]
    return old_row_ids(work.mirror_io, work.indexed_paths, work.first_row_ids, file, pos)


def _old_values(work: SliceWork, events: Changes) -> OldValues | None:
    """What rows keep of those that they replace; None where every event tells its whole row."""
    if not work.shape.keeps_values:
        return None
    return OldValues(
        Story(
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
    work: SliceWork, winners: Changes, row_ids: pa.Array | None, paths: list[str], old: OldValues | None
) -> WrittenRows:
    """The winners, ascending by key: all at once, or in halves where they take too much memory."""
    try:
        return _write_piece(work, winners, row_ids, paths, old)
    except TooMuch:
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
    work: SliceWork, winners: Changes, row_ids: pa.Array | None, paths: list[str], old: OldValues | None
) -> WrittenRows:
    """The winners, ascending by key: read in the order of their files, written by key where keys have an order.

    Neighbouring keys then lie at neighbouring positions, which the index stores as runs and readers skip by.
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
        rows = with_keys_left(
            rows, winners.take(by_source), work.changelog_io, work.files, work.shape, work.field_map
        )
    if work.own is not None:
        rows = work.own.fill(rows, winners.take(by_source), _sides(work), work.index)
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
    work: SliceWork, changes: Changes, orders: U64, fate: Fate, written: WrittenRows, noted: list[str]
) -> SegmentInfo | None:
    known = fate.writes | fate.tombstones
    if not known.any():
        return None
    file = np.full(len(changes), TOMBSTONE, dtype=np.int32)
    pos = np.zeros(len(changes), dtype=np.int64)
    file[fate.writes] = written.file
    pos[fate.writes] = written.pos
    entries = Entries(changes.keys.take(known), file[known], pos[known], orders[known])
    paths = [data_file.file_path for data_file in written.files]
    path = f"{work.index_location}/{uuid.uuid4()}.segment.puffin"
    noted.append(path)
    return write_segment(work.mirror_io, path, entries, work.shape.recipe, paths, tuple(range(len(paths))))


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[step] = time.perf_counter() - began
