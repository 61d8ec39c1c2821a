"""Puts small data files together: read → check against the index → write → index → commit, and no row changes.

The commit is a `replace`, which those who follow the mirror's changes pass by. It is made on the head that was read, as
any other; if somebody else was quicker it is given up, and the next merge finds the files again. Rows of other writers
stay where they are for as long as it is known when they came: their order follows from that, should the index be lost.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from pyiceberg.manifest import DataFile

from icemirror.crash import reach
from icemirror.errors import REBUILD, Corrupt
from icemirror.mirror_properties import TARGET_FILE_BYTES
from icemirror.telemetry.logs import get_log
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.source_rows import TooMuch
from spark_job.commit_root import FileChanges, check_counts, commit_root
from spark_job.compaction.choose import Group, choose_small, fewest
from spark_job.compaction.left_alone import LeftAlone
from spark_job.compaction.move_rows import AstrayRow, MovedRows, move_rows
from spark_job.files.discard import discard
from spark_job.files.written import written_for_commit
from spark_job.iceberg.failures import named
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.view import LiveFile, live_files
from spark_job.iceberg.write_properties import read_number
from spark_job.index_upkeep.merged_then import merged_then
from spark_job.index_upkeep.recount import recount
from spark_job.key_index.damage import DamagedSegment
from spark_job.key_index.keys import concat_keys
from spark_job.key_index.numbered import write_entries
from spark_job.key_index.root import IndexedFile, Root, forget_files
from spark_job.key_index.segment import Entries, SegmentInfo
from spark_job.write.dead_files import deletes_only_of

log = get_log(__name__)


@dataclass(frozen=True)
class Compacted:
    """What a compaction did: so many data files became so many, and the mirror's index after it."""

    files_before: int
    files_after: int
    rows: int
    root: Root


@dataclass(frozen=True)
class _Moved:
    """All files that come with a commit, and the segment that has the keys of their rows, if they have any."""

    data_files: tuple[DataFile, ...]
    segment: SegmentInfo | None


def find_due(mirror: Mirror, left_alone: LeftAlone) -> tuple[Group, ...]:
    """The files to put together next. None where the index does not know the head, or has to be rebuilt."""
    return _choose(mirror, _live(mirror), left_alone)


def compact(
    mirror: Mirror, shape: ChangelogShape, location: str, run_id: str, left_alone: LeftAlone
) -> Compacted | None:
    """Puts files together in one commit; None where none are due. A group that cannot be put together is passed by."""
    if mirror.root is None or mirror.cursor is None:
        return None
    live = _live(mirror)
    while groups := _choose(mirror, live, left_alone):
        began = time.perf_counter()
        with written_for_commit(mirror.table.io) as written:
            tried = (_move(mirror, mirror.root, shape, group, left_alone, written) for group in groups)
            parts = [part for part in tried if part is not None]
            if not parts:
                continue
            moved = _index(mirror, mirror.root, shape, location, parts, written)
            gone = tuple(file for part in parts for file in part.group)
            paths = {file.path for file in gone}
            kept = {path: file for path, file in live.items() if path not in paths}
            root = next_root(mirror, mirror.root, moved, paths)
            check_counts(root, kept, moved.data_files, {})
            files = FileChanges(
                data_files=moved.data_files,
                replaced=deletes_only_of(gone, kept.values()),
                removed=gone,
                same_rows=True,
            )
            commit_root(mirror, root, files, mirror.cursor, run_id, location, {})
        rows = sum(file.record_count for file in moved.data_files)
        done = Compacted(len(gone), len(moved.data_files), rows, root)
        log.info(
            "small data files put together",
            files=done.files_before,
            into=done.files_after,
            rows=done.rows,
            seconds=round(time.perf_counter() - began, 4),
        )
        return done
    return None


def _move(
    mirror: Mirror, root: Root, shape: ChangelogShape, group: Group, left_alone: LeftAlone, written: list[str]
) -> MovedRows | None:
    """The rows of a group in new files, or of as few of it as are worth it; None where that cannot be."""
    before, tried = len(written), group
    try:
        with named():
            moved = move_rows(mirror, root, shape, group, written)
            _check_moved(moved, group)
        if len(moved.data_files) < len(group):
            return moved
        reason = "they would not become fewer"
    except (AstrayRow, DamagedSegment):
        raise
    except TooMuch:
        reason, tried = "their rows take too much memory", fewest(group)
    except Corrupt as error:
        reason = str(error)
    discard(mirror.table.io, written[before:])
    del written[before:]
    if len(tried) < len(group):
        return _move(mirror, root, shape, tried, left_alone, written)
    left_alone.add(group, reason)
    return None


def _check_moved(moved: MovedRows, group: Group) -> None:
    """Every live row of the files that go is in one that comes."""
    expected = sum(file.rows - file.deleted for file in group)
    found = sum(file.record_count for file in moved.data_files), len(moved.entries)
    if found != (expected, expected):
        raise Corrupt(
            f"{group[0].path} and {len(group) - 1} other files have {expected} live rows, but {found[0]} were moved "
            f"and {found[1]} indexed; nothing was committed. If it happens again, {REBUILD}."
        )


def _index(
    mirror: Mirror,
    root: Root,
    shape: ChangelogShape,
    location: str,
    parts: Sequence[MovedRows],
    written: list[str],
) -> _Moved:
    """The keys of all moved rows in one segment, which counts new files on from those of the root."""
    data_files = tuple(file for part in parts for file in part.data_files)
    if shape.is_keyless:
        return _Moved(data_files, None)
    first = np.cumsum([len(root.files), *(len(part.data_files) for part in parts[:-1])])
    file = np.concatenate([at + part.entries.file for at, part in zip(first, parts, strict=True)])
    keys = concat_keys([part.entries.keys for part in parts])
    order = keys.argsort()
    entries = Entries(
        keys.take(order),
        file[order].astype(np.int32),
        np.concatenate([part.entries.pos for part in parts])[order],
        np.concatenate([part.entries.orders for part in parts])[order],
    )
    paths = {len(root.files) + at: file.file_path for at, file in enumerate(data_files)}
    segment = write_entries(mirror.table.io, location, entries, shape.recipe, paths)
    if segment is None:
        raise Corrupt(f"{'.'.join(mirror.table.name())}: files that were to be put together have no rows")
    written.append(segment.path)
    reach("moved-indexed")
    return _Moved(data_files, segment)


def _choose(mirror: Mirror, live: Mapping[str, LiveFile], left_alone: LeftAlone) -> tuple[Group, ...]:
    metadata = mirror.table.metadata
    of_others = merged_then(metadata, live)
    return choose_small(
        [file for file in live.values() if file.path not in of_others and file not in left_alone],
        metadata.default_spec_id,
        read_number(metadata.properties, TARGET_FILE_BYTES),
        with_row_ids=metadata.format_version >= 3,
    )


def _live(mirror: Mirror) -> Mapping[str, LiveFile]:
    """The data files as the index knows them; none where it does not know the head, or has to be rebuilt."""
    if mirror.root is None or mirror.cursor is None or mirror.foreign:
        return {}
    return recount(mirror.table.io, live_files(mirror.table.io, mirror.head), mirror.root)


def next_root(mirror: Mirror, before: Root, moved: _Moved, gone: Set[str]) -> Root:
    """The root after it: the moved rows in a run of their own, the files that they were in gone. Pure."""
    files = [
        file.model_copy(update={"live": 0, "gone": True}) if file.path in gone else file
        for file in before.files
    ]
    files.extend(map(IndexedFile.added, moved.data_files))
    now = int(time.time() * 1000)
    added = [moved.segment.in_run(before.next_run, now)] if moved.segment else []
    root = before.model_copy(
        update={
            "snapshot_id": mirror.table.metadata.new_snapshot_id(),
            "epoch": mirror.epoch + 1,
            "segments": (*added, *before.segments),
            "files": tuple(files),
            "next_run": before.next_run + 1,
        }
    )
    return forget_files(root)
