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
from spark_job.commit.commit_root import FileChanges, check_counts, commit_root
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import REJECTED, Mirror
from spark_job.index.index_merge import MergedIndex
from spark_job.index.root import IndexedFile, Root, drop_unreferenced_files
from spark_job.index.segment import SegmentInfo
from spark_job.merge.shard import ShardResult
from spark_job.plan.schema_evolution import SchemaEvolution
from spark_job.plan.slices import Slice
from spark_job.storage.discard import discard, discard_unless_committed
from spark_job.write.deletes import write_deletes
from spark_job.write.live_row_counts import recount_deleted_rows
from spark_job.write.plan_deletes import choose_empty_files, deletes_only_for, plan_deletes

NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """What the events of a slice did, summed over its shards."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    stale: int = 0
    unchanged: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class CommittedSlice:
    """The snapshot, files, index and timings of a committed slice."""

    snapshot_id: int
    tally: ChangeCounts
    data_files: Sequence[DataFile]
    delete_files: Sequence[DataFile]
    root: Root
    index_bytes: int
    seconds: Mapping[str, float]


def commit_slice(
    mirror: Mirror,
    slice_: Slice,
    shards: Sequence[ShardResult],
    merged: MergedIndex,
    run_id: str,
    index_location: str,
    labels: Mapping[str, str] = NO_LABELS,
    evolution: SchemaEvolution | None = None,
) -> CommittedSlice:
    """Commit what the shards wrote. On a conflict their files are deleted; they are kept while the outcome is unknown.

    `labels` are added to the snapshot's summary. `evolution` changes the mirror's columns in the same commit.
    """
    table, io = mirror.table, mirror.table.io
    paths = [path for shard in shards for path in shard.paths]
    paths.extend(segment.path for segment in merged.added)
    snapshot_id = table.metadata.new_snapshot_id()
    with discard_unless_committed(io, paths) as written:
        began = time.perf_counter()
        live = recount_deleted_rows(io, live_files(io, mirror.head), mirror.root)
        removed = _removed_positions(mirror, shards)
        _check_known(removed, live)
        _check_shards(mirror, shards)
        data_files = _data_files(shards)
        empty = choose_empty_files(removed, live, adds_rows=bool(data_files))
        reach("write-deletes")
        kept = {path: file for path, file in live.items() if path not in empty} if empty else live
        deleted = {path: rows for path, rows in removed.items() if path in kept}
        deletes = plan_deletes(io, table.metadata, deleted, kept)
        delete_files = write_deletes(io, table.metadata, deletes.positions, kept, written)
        reach("deletes-written")
        root = next_root(mirror, shards, merged, removed, empty.keys(), snapshot_id)
        check_counts(root, kept, data_files, deleted)
        files = FileChanges(
            data_files,
            delete_files,
            replaced=(*deletes.replaced, *deletes_only_for(empty.values(), kept.values())),
            removed=tuple(empty.values()),
        )
        prepared = time.perf_counter()
        summary = {**_summary_counts(_count_changes(shards)), **labels}
        committed = commit_root(
            mirror, root, files, slice_.cursor, run_id, index_location, summary, evolution
        )
    discard(io, _superseded_segments(merged, root))
    return CommittedSlice(
        snapshot_id=snapshot_id,
        tally=_count_changes(shards),
        data_files=data_files,
        delete_files=delete_files,
        root=root,
        index_bytes=committed.root_bytes + sum(segment.bytes for segment in _new_segments(shards, merged)),
        seconds={**_slowest(shards), "deletes": prepared - began, **committed.seconds},
    )


def next_root(
    mirror: Mirror,
    shards: Sequence[ShardResult],
    merged: MergedIndex,
    removed: Mapping[str, NDArray[np.int64]],
    empty: Set[str],
    snapshot_id: int,
) -> Root:
    """Return the root after this slice: new segments first, row counts updated, empty data files marked as gone."""
    before = mirror.root
    files = [
        _without_rows(file, len(removed.get(file.path, ())), gone=file.path in empty)
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
        expired=merged.expired,
    )
    return drop_unreferenced_files(root)


def _without_rows(file: IndexedFile, rows: int, *, gone: bool) -> IndexedFile:
    return file.model_copy(update={"live": file.live - rows, "gone": file.gone or gone})


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
            f"{'.'.join(mirror.table.name())}: two keys were located at one row; nothing was committed. To go on, "
            f"{REBUILD}."
        )
    ordinals, starts = np.unique(file, return_index=True)
    by_file = np.split(pos, starts[1:])
    return {
        mirror.root.files[int(ordinal)].path: positions
        for ordinal, positions in zip(ordinals, by_file, strict=True)
    }


def _check_known(removed: Mapping[str, NDArray[np.int64]], live: Mapping[str, LiveFile]) -> None:
    """Check that the table has all data files in which the index located rows."""
    for path in removed.keys() - live.keys():
        raise Corrupt(
            f"{path}: the key index has rows there, but the table has no such file; nothing was committed. "
            f"If the table's manifests are damaged, restore them; else {REBUILD}."
        )


def _check_shards(mirror: Mirror, shards: Sequence[ShardResult]) -> None:
    """Check that each shard wrote and indexed the rows of its changes, and removes the rows that they replace."""
    for shard in shards:
        writes, tombstones = int(shard.fate.writes.sum()), int(shard.fate.tombstones.sum())
        expected = {
            "rows": writes,
            "entries": writes + tombstones if shard.indexed else 0,
            "tombstones": tombstones,
            "removals": int(shard.fate.removes.sum()),
        }
        found = {
            "rows": sum(file.record_count for file in shard.data_files),
            "entries": shard.segment.entries if shard.segment else 0,
            "tombstones": shard.segment.tombstones if shard.segment else 0,
            "removals": len(shard.removed_pos),
        }
        if found != expected:
            raise Corrupt(
                f"{'.'.join(mirror.table.name())}: a shard should have {expected}, but has {found}; "
                f"nothing was committed. If it happens again, {REBUILD}."
            )


def _data_files(shards: Sequence[ShardResult]) -> list[DataFile]:
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


def _count_changes(shards: Sequence[ShardResult]) -> ChangeCounts:
    fates = [shard.fate for shard in shards]
    return ChangeCounts(
        inserted=sum(fate.inserted for fate in fates),
        updated=sum(fate.updated for fate in fates),
        deleted=sum(fate.deleted for fate in fates),
        stale=sum(fate.stale for fate in fates),
        unchanged=sum(fate.unchanged for fate in fates),
        rejected=sum(len(shard.rejected) for shard in shards),
    )


def _summary_counts(tally: ChangeCounts) -> dict[str, str]:
    return {
        "icemirror.inserted": str(tally.inserted),
        "icemirror.updated": str(tally.updated),
        "icemirror.deleted": str(tally.deleted),
        "icemirror.stale": str(tally.stale),
        REJECTED: str(tally.rejected),
    }


def _slowest(shards: Sequence[ShardResult]) -> dict[str, float]:
    """Return the seconds of the slowest shard for each step: shards run in parallel."""
    steps: dict[str, float] = {}
    for shard in shards:
        for step, seconds in shard.seconds.items():
            steps[step] = max(steps.get(step, 0.0), seconds)
    return steps
