"""Commit a slice: check what its shards wrote, write deletes and root, and commit one snapshot."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile

from icemirror.errors import REBUILD, Corrupt
from icemirror.processes.crash_points import reach
from spark_job.commit.commit_root import FileChanges, check_live_row_counts, commit_root
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import REJECTED, Mirror
from spark_job.index.index_merge import MergedIndex
from spark_job.index.root import IndexedFile, Root, drop_unreferenced_files
from spark_job.index.segment import SegmentInfo
from spark_job.merge.shard_result import ShardResult
from spark_job.plan.schema_evolution import SchemaEvolution
from spark_job.plan.slices import Slice
from spark_job.storage.discard import discard, discard_unless_committed
from spark_job.write.deletes import write_deletes
from spark_job.write.live_row_counts import recount_deleted_rows
from spark_job.write.plan_deletes import choose_empty_files, deletes_only_for, plan_deletes

NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EventCounts:
    """What the events of a slice did, summed over its shards."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    stale: int = 0
    unchanged: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class UncommittedSlice:
    """A slice with what its shards and the index merge wrote, ready to commit on the mirror's head."""

    mirror: Mirror
    slice: Slice
    shards: Sequence[ShardResult]
    index: MergedIndex


@dataclass(frozen=True)
class CommittedSlice:
    """The snapshot, files, index and timings of a committed slice."""

    snapshot_id: int
    counts: EventCounts
    data_files: Sequence[DataFile]
    delete_files: Sequence[DataFile]
    root: Root
    index_bytes: int
    seconds: Mapping[str, float]


def commit_slice(
    uncommitted: UncommittedSlice,
    run_id: str,
    index_location: str,
    labels: Mapping[str, str] = NO_LABELS,
    evolution: SchemaEvolution | None = None,
) -> CommittedSlice:
    """Commit what the shards wrote. On a conflict their files are deleted; they are kept while the outcome is unknown.

    `labels` are added to the snapshot's summary. `evolution` changes the mirror's columns in the same commit.
    """
    mirror, shards, merged = uncommitted.mirror, uncommitted.shards, uncommitted.index
    table, io = mirror.table, mirror.table.io
    paths = [path for shard in shards for path in shard.paths]
    paths.extend(segment.path for segment in merged.added)
    snapshot_id = table.metadata.new_snapshot_id()
    with discard_unless_committed(io, paths) as written:
        began = time.perf_counter()
        live = recount_deleted_rows(io, live_files(io, mirror.head), mirror.root)
        removed = _removed_positions(mirror, shards)
        _check_located_files(removed, live)
        _check_shards(mirror, shards)
        data_files = _collect_data_files(shards)
        empty = choose_empty_files(removed, live, adds_rows=bool(data_files))
        reach("write-deletes")
        kept = {path: file for path, file in live.items() if path not in empty} if empty else live
        deleted = {path: rows for path, rows in removed.items() if path in kept}
        deletes = plan_deletes(io, table.metadata, deleted, kept)
        delete_files = write_deletes(io, table.metadata, deletes.positions, kept, written)
        reach("deletes-written")
        root = root_after_slice(mirror, shards, merged, removed, empty.keys(), snapshot_id)
        check_live_row_counts(root, kept, data_files, deleted)
        files = FileChanges(
            data_files,
            delete_files,
            replaced=(*deletes.replaced, *deletes_only_for(empty.values(), kept.values())),
            removed=tuple(empty.values()),
        )
        prepared = time.perf_counter()
        summary = {**_summary_counts(_count_events(shards)), **labels}
        committed = commit_root(
            mirror, root, files, uncommitted.slice.cursor, run_id, index_location, summary, evolution
        )
    discard(io, _superseded_segments(merged, root))
    return CommittedSlice(
        snapshot_id=snapshot_id,
        counts=_count_events(shards),
        data_files=data_files,
        delete_files=delete_files,
        root=root,
        index_bytes=committed.root_bytes + sum(segment.bytes for segment in _new_segments(shards, merged)),
        seconds={**_slowest_shard_seconds(shards), "deletes": prepared - began, **committed.seconds},
    )


def root_after_slice(
    mirror: Mirror,
    shards: Sequence[ShardResult],
    merged: MergedIndex,
    removed: Mapping[str, NDArray[np.int64]],
    empty: Set[str],
    snapshot_id: int,
) -> Root:
    """Return the root after this slice: new segments first, row counts updated, empty data files flagged as removed."""
    before = mirror.root
    files = [
        _subtract_rows(file, len(removed.get(file.path, ())), removed=file.path in empty)
        if file.path in removed or file.path in empty
        else file
        for file in (before.files if before else ())
    ]
    segments: list[SegmentInfo] = []
    now = int(time.time() * 1000)
    for shard in shards:
        ordinals = tuple(range(len(files), len(files) + len(shard.data_files)))
        files.extend(map(IndexedFile.added, shard.data_files))
        if shard.segment is not None:
            segment = shard.segment.with_run(merged.next_run, now)
            segments.append(segment.model_copy(update={"files": ordinals}))
    root = Root(
        snapshot_id=snapshot_id,
        epoch=mirror.epoch + 1,
        segments=(*segments, *merged.segments),
        files=tuple(files),
        next_run=merged.next_run + 1,
        merging=merged.merging,
        newest_expired_order=merged.newest_expired_order,
    )
    return drop_unreferenced_files(root)


def _subtract_rows(file: IndexedFile, rows: int, *, removed: bool) -> IndexedFile:
    return file.model_copy(update={"live": file.live - rows, "removed": file.removed or removed})


def _removed_positions(mirror: Mirror, shards: Sequence[ShardResult]) -> dict[str, NDArray[np.int64]]:
    """Return the removed positions by data file, ascending."""
    if mirror.root is None or not any(len(shard.removed_file) for shard in shards):
        return {}
    file = np.concatenate([shard.removed_file for shard in shards])
    pos = np.concatenate([shard.removed_pos for shard in shards])
    order = np.lexsort((pos, file))
    file, pos = file[order], pos[order]
    if bool(((file[1:] == file[:-1]) & (pos[1:] == pos[:-1])).any()):
        raise Corrupt(
            f"{'.'.join(mirror.table.name())}: two keys were located at one row; nothing was committed. To "
            f"continue, {REBUILD}."
        )
    ordinals, starts = np.unique(file, return_index=True)
    by_file = np.split(pos, starts[1:])
    return {
        mirror.root.files[int(ordinal)].path: positions
        for ordinal, positions in zip(ordinals, by_file, strict=True)
    }


def _check_located_files(removed: Mapping[str, NDArray[np.int64]], live: Mapping[str, LiveFile]) -> None:
    """Check that the table has all data files in which the index located rows."""
    for path in removed.keys() - live.keys():
        raise Corrupt(
            "the key index points at a data file that the table does not have; nothing was committed. If the table's "
            f"manifests are damaged, restore them; else {REBUILD}. The data file: {path}"
        )


def _check_shards(mirror: Mirror, shards: Sequence[ShardResult]) -> None:
    """Check that each shard wrote and indexed the rows of its changes, and removes the rows that they replace."""
    for shard in shards:
        writes, tombstones = int(shard.effects.writes.sum()), int(shard.effects.tombstones.sum())
        expected = {
            "rows": writes,
            "entries": writes + tombstones if shard.indexed else 0,
            "tombstones": tombstones,
            "removals": int(shard.effects.removes.sum()),
        }
        found = {
            "rows": sum(file.record_count for file in shard.data_files),
            "entries": shard.segment.entries if shard.segment else 0,
            "tombstones": shard.segment.tombstones if shard.segment else 0,
            "removals": len(shard.removed_pos),
        }
        if found != expected:
            raise Corrupt(
                f"{'.'.join(mirror.table.name())}: the shard wrote {found}, expected {expected}; "
                f"nothing was committed. If it happens again, {REBUILD}."
            )


def _collect_data_files(shards: Sequence[ShardResult]) -> list[DataFile]:
    """Return the shards' data files, with their spec ids set."""
    files: list[DataFile] = []
    for shard in shards:
        for file, spec_id in zip(shard.data_files, shard.spec_ids, strict=True):
            file.spec_id = spec_id
            files.append(file)
    return files


def _superseded_segments(merged: MergedIndex, root: Root) -> list[str]:
    """Return segments that were written for this commit and merged into others in it."""
    kept = {segment.path for segment in root.segments}
    return [segment.path for segment in merged.added if segment.path not in kept]


def _new_segments(shards: Sequence[ShardResult], merged: MergedIndex) -> list[SegmentInfo]:
    return [*(shard.segment for shard in shards if shard.segment), *merged.added]


def _count_events(shards: Sequence[ShardResult]) -> EventCounts:
    effects = [shard.effects for shard in shards]
    return EventCounts(
        inserted=sum(effect.inserted for effect in effects),
        updated=sum(effect.updated for effect in effects),
        deleted=sum(effect.deleted for effect in effects),
        stale=sum(effect.stale for effect in effects),
        unchanged=sum(effect.unchanged for effect in effects),
        rejected=sum(len(shard.rejected) for shard in shards),
    )


def _summary_counts(counts: EventCounts) -> dict[str, str]:
    return {
        "icemirror.inserted": str(counts.inserted),
        "icemirror.updated": str(counts.updated),
        "icemirror.deleted": str(counts.deleted),
        "icemirror.stale": str(counts.stale),
        REJECTED: str(counts.rejected),
    }


def _slowest_shard_seconds(shards: Sequence[ShardResult]) -> dict[str, float]:
    """Return the seconds of the slowest shard for each step: shards run in parallel."""
    steps: dict[str, float] = {}
    for shard in shards:
        for step, seconds in shard.seconds.items():
            steps[step] = max(steps.get(step, 0.0), seconds)
    return steps
