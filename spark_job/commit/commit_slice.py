"""Commit a slice: check what its shards wrote, write deletes and root, and commit one snapshot."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile

from icemirror.errors import REBUILD_ADVICE, Corrupt
from icemirror.processes.crash_points import crash_point
from spark_job.commit.commit_snapshot import FileChanges, check_live_row_counts, commit_and_expire
from spark_job.commit.next_root import root_after_slice
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.property_names import PROPERTY_REJECTED
from spark_job.index.apply_index_merge import MergedIndex
from spark_job.index.root import Root
from spark_job.index.segment import SegmentInfo
from spark_job.merge.shard_result import ShardResult
from spark_job.plan.schema_evolution import SchemaEvolution
from spark_job.plan.slices import Slice
from spark_job.storage.discard import discard, discard_unless_committed
from spark_job.write.deletes import write_deletes
from spark_job.write.plan_deletes import choose_empty_files, exclusive_deletes, plan_deletes
from spark_job.write.read_deletes import recount_deleted_rows

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
class NothingToCommit:
    """A slice or a repair that would change neither rows, nor cursor, nor index."""


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
    """Commit what the shards wrote, and return what was committed.

    On a conflict the shards' files are deleted; they are kept while the outcome is unknown.
    `labels` are added to the snapshot's summary. `evolution` changes the mirror's columns in the same commit.
    """
    mirror, shards, merged = uncommitted.mirror, uncommitted.shards, uncommitted.index
    table, io = mirror.table, mirror.table.io
    paths = [path for shard in shards for path in shard.paths]
    paths.extend(segment.path for segment in merged.added)
    snapshot_id = table.metadata.new_snapshot_id()
    with discard_unless_committed(io, paths) as written_paths:
        began = time.perf_counter()
        live = recount_deleted_rows(io, live_files(io, mirror.head), mirror.root)
        removed_positions = _removed_positions(mirror, shards)
        _check_located_files(removed_positions, live)
        _check_shards(mirror, shards)
        data_files = _collect_data_files(shards)
        empty_files = choose_empty_files(removed_positions, live, adds_rows=bool(data_files))
        crash_point("write-deletes")
        remaining_files = (
            {path: file for path, file in live.items() if path not in empty_files} if empty_files else live
        )
        remaining_removals = {
            path: positions for path, positions in removed_positions.items() if path in remaining_files
        }
        delete_plan = plan_deletes(io, table.metadata, remaining_removals, remaining_files)
        delete_files = write_deletes(
            io, table.metadata, delete_plan.positions, remaining_files, written_paths
        )
        crash_point("deletes-written")
        root = root_after_slice(mirror, shards, merged, removed_positions, empty_files.keys(), snapshot_id)
        check_live_row_counts(root, remaining_files, data_files, remaining_removals)
        emptied_deletes = exclusive_deletes(empty_files.values(), remaining_files.values())
        files = FileChanges(
            data_files,
            delete_files,
            replaced_deletes=(*delete_plan.replaced_deletes, *emptied_deletes),
            removed_data_files=tuple(empty_files.values()),
        )
        prepared_at = time.perf_counter()
        counts = _count_events(shards)
        summary = {**_summary_counts(counts), **labels}
        statistics = commit_and_expire(
            mirror, root, files, uncommitted.slice.cursor, run_id, index_location, summary, evolution
        )
    discard(io, _superseded_segments(merged, root))
    return CommittedSlice(
        snapshot_id=snapshot_id,
        counts=counts,
        data_files=data_files,
        delete_files=delete_files,
        root=root,
        index_bytes=statistics.root_bytes + sum(segment.bytes for segment in _new_segments(shards, merged)),
        seconds={**_slowest_shard_seconds(shards), "deletes": prepared_at - began, **statistics.seconds},
    )


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
            f"continue, {REBUILD_ADVICE}."
        )
    ordinals, starts = np.unique(file, return_index=True)
    return {
        mirror.root.files[int(ordinal)].path: positions
        for ordinal, positions in zip(ordinals, np.split(pos, starts[1:]), strict=True)
    }


def _check_located_files(
    removed_positions: Mapping[str, NDArray[np.int64]], live: Mapping[str, LiveFile]
) -> None:
    """Raise `Corrupt` unless the table has all data files in which the index located rows."""
    if missing := removed_positions.keys() - live.keys():
        raise Corrupt(
            "the key index points at a data file that the table does not have; nothing was committed. If the table's "
            f"manifests are damaged, restore them; else {REBUILD_ADVICE}. The data file: {min(missing)}"
        )


def _check_shards(mirror: Mirror, shards: Sequence[ShardResult]) -> None:
    """Raise `Corrupt` unless each shard wrote and indexed its rows, and removes the rows that they replace."""
    for shard in shards:
        writes, tombstones = int(shard.effects.writes.sum()), int(shard.effects.tombstones.sum())
        expected = {
            "rows": writes,
            "entries": writes + tombstones if shard.indexed else 0,
            "tombstones": tombstones,
            "removals": int(shard.effects.removes.sum()),
        }
        written = {
            "rows": sum(file.record_count for file in shard.data_files),
            "entries": shard.segment.entries if shard.segment else 0,
            "tombstones": shard.segment.tombstones if shard.segment else 0,
            "removals": len(shard.removed_pos),
        }
        if written != expected:
            raise Corrupt(
                f"{'.'.join(mirror.table.name())}: the shard wrote {written}, expected {expected}; "
                f"nothing was committed. If it happens again, {REBUILD_ADVICE}."
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
    root_paths = {segment.path for segment in root.segments}
    return [segment.path for segment in merged.added if segment.path not in root_paths]


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
        PROPERTY_REJECTED: str(counts.rejected),
    }


def _slowest_shard_seconds(shards: Sequence[ShardResult]) -> dict[str, float]:
    """Return the seconds of the slowest shard for each step: shards run in parallel."""
    steps: dict[str, float] = {}
    for shard in shards:
        for step, seconds in shard.seconds.items():
            steps[step] = max(steps.get(step, 0.0), seconds)
    return steps
