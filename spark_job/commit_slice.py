"""The end of a slice: deletes, root and snapshot from what the shards wrote, after the checks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile

from icemirror.crash import reach
from icemirror.errors import REBUILD, Corrupt
from spark_job.commit_root import FileChanges, check_counts, commit_root
from spark_job.files.discard import discard
from spark_job.files.written import written_for_commit
from spark_job.iceberg.mirror import REJECTED, Mirror
from spark_job.iceberg.view import LiveFile, live_files
from spark_job.index_upkeep.recount import recount
from spark_job.key_index.index_merge import MergedIndex
from spark_job.key_index.root import IndexedFile, Root, forget_files
from spark_job.key_index.segment import SegmentInfo
from spark_job.planning.plan import Slice
from spark_job.schema_changes.evolution import Evolution
from spark_job.shard import ShardResult
from spark_job.write.dead_files import choose_dead, deletes_only_of
from spark_job.write.delete_tiers import plan_deletes
from spark_job.write.deletes import write_deletes

NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Tally:
    """What a slice did, over all shards."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    stale: int = 0
    unchanged: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class Outcome:
    """A committed slice."""

    snapshot_id: int
    tally: Tally
    data_files: Sequence[DataFile]
    delete_files: Sequence[DataFile]
    root: Root
    index_bytes: int
    seconds: Mapping[str, float]


def commit_slice(
    mirror: Mirror,
    part: Slice,
    shards: Sequence[ShardResult],
    merged: MergedIndex,
    run_id: str,
    index_location: str,
    labels: Mapping[str, str] = NO_LABELS,
    evolution: Evolution | None = None,
) -> Outcome:
    """Commits what the shards wrote. On a conflict their files are removed; while the outcome is unknown none is.

    `labels` are added to the snapshot's summary. `evolution`: what the rows need of the mirror's columns.
    """
    table, io = mirror.table, mirror.table.io
    paths = [path for shard in shards for path in shard.paths]
    paths.extend(segment.path for segment in merged.added)
    snapshot_id = table.metadata.new_snapshot_id()
    with written_for_commit(io, paths) as written:
        began = time.perf_counter()
        live = recount(io, live_files(io, mirror.head), mirror.root)
        doomed = _doomed(mirror, shards)
        _check_known(doomed, live)
        _check_shards(mirror, shards)
        data_files = _data_files(shards)
        dead = choose_dead(doomed, live, adds_rows=bool(data_files))
        reach("write-deletes")
        kept = {path: file for path, file in live.items() if path not in dead} if dead else live
        lose = {path: rows for path, rows in doomed.items() if path in kept}
        deletes = plan_deletes(io, table.metadata, lose, kept)
        delete_files = write_deletes(io, table.metadata, deletes.positions, kept, written)
        reach("deletes-written")
        root = next_root(mirror, shards, merged, doomed, dead.keys(), snapshot_id)
        check_counts(root, kept, data_files, lose)
        files = FileChanges(
            data_files,
            delete_files,
            replaced=(*deletes.replaced, *deletes_only_of(dead.values(), kept.values())),
            removed=tuple(dead.values()),
        )
        prepared = time.perf_counter()
        told = {**_counts(_tally(shards)), **labels}
        committed = commit_root(mirror, root, files, part.cursor, run_id, index_location, told, evolution)
    discard(io, _passing(merged, root))
    return Outcome(
        snapshot_id=snapshot_id,
        tally=_tally(shards),
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
    doomed: Mapping[str, NDArray[np.int64]],
    dead: Set[str],
    snapshot_id: int,
) -> Root:
    """The root after this slice: new segments first, the counts of the data files moved on, those without rows gone."""
    before = mirror.root
    files = [
        _without(file, len(doomed.get(file.path, ())), gone=file.path in dead)
        if file.path in doomed or file.path in dead
        else file
        for file in (before.files if before else ())
    ]
    segments: list[SegmentInfo] = []
    now = int(time.time() * 1000)
    for shard in shards:
        ordinals = tuple(range(len(files), len(files) + len(shard.data_files)))
        files.extend(map(IndexedFile.added, shard.data_files))
        if shard.segment is not None:
            segment = shard.segment.in_run(merged.next_run, now)
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
    return forget_files(root)


def _without(file: IndexedFile, rows: int, *, gone: bool) -> IndexedFile:
    return file.model_copy(update={"live": file.live - rows, "gone": file.gone or gone})


def _doomed(mirror: Mirror, shards: Sequence[ShardResult]) -> dict[str, NDArray[np.int64]]:
    """The positions that go, by data file, ascending."""
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
    pieces = np.split(pos, starts[1:])
    return {
        mirror.root.files[int(ordinal)].path: piece for ordinal, piece in zip(ordinals, pieces, strict=True)
    }


def _check_known(doomed: Mapping[str, NDArray[np.int64]], live: Mapping[str, LiveFile]) -> None:
    """The files in which the index finds rows are those that the table has."""
    for path in doomed.keys() - live.keys():
        raise Corrupt(
            f"{path}: the key index has rows there, but the table has no such file; nothing was committed. "
            f"If the table's manifests are damaged, restore them; else {REBUILD}."
        )


def _check_shards(mirror: Mirror, shards: Sequence[ShardResult]) -> None:
    """Each shard wrote and indexed the rows that its changes write, and removes the rows that they replace."""
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


def _passing(merged: MergedIndex, root: Root) -> list[str]:
    """Segments that were written for this commit and merged away in it."""
    kept = {segment.path for segment in root.segments}
    return [segment.path for segment in merged.added if segment.path not in kept]


def _new_segments(shards: Sequence[ShardResult], merged: MergedIndex) -> list[SegmentInfo]:
    return [*(shard.segment for shard in shards if shard.segment), *merged.added]


def _tally(shards: Sequence[ShardResult]) -> Tally:
    fates = [shard.fate for shard in shards]
    return Tally(
        inserted=sum(fate.inserted for fate in fates),
        updated=sum(fate.updated for fate in fates),
        deleted=sum(fate.deleted for fate in fates),
        stale=sum(fate.stale for fate in fates),
        unchanged=sum(fate.unchanged for fate in fates),
        rejected=sum(len(shard.rejected) for shard in shards),
    )


def _counts(tally: Tally) -> dict[str, str]:
    return {
        "icemirror.inserted": str(tally.inserted),
        "icemirror.updated": str(tally.updated),
        "icemirror.deleted": str(tally.deleted),
        "icemirror.stale": str(tally.stale),
        REJECTED: str(tally.rejected),
    }


def _slowest(shards: Sequence[ShardResult]) -> dict[str, float]:
    """Shards run side by side: the slowest one of each step counts."""
    steps: dict[str, float] = {}
    for shard in shards:
        for step, seconds in shard.seconds.items():
            steps[step] = max(steps.get(step, 0.0), seconds)
    return steps
