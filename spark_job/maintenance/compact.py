"""Compacts small data files of a mirror in one commit: read → check against the index → write → index → commit.

No row changes. The commit is a `replace`, which consumers of the mirror's changes skip. It is fenced on the head that
was read; after a conflict the next merge tries again. Files of other writers are not compacted while the snapshot
that added them exists: a rebuild of the index derives the order of their rows from it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from pyiceberg.manifest import DataFile

from icemirror.errors import REBUILD, Corrupt
from icemirror.processes.crash_points import reach
from icemirror.tables.mirror_properties import TARGET_FILE_BYTES
from icemirror.telemetry.logs import get_log
from spark_job.changelog.read_rows import RowsExceedMemory
from spark_job.changelog.shape import ChangelogShape
from spark_job.commit.commit_root import FileChanges, check_live_row_counts, commit_root
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.write_properties import read_number
from spark_job.index.keys import concat_keys
from spark_job.index.root import IndexedFile, Root, drop_unreferenced_files
from spark_job.index.segment import DamagedSegment, Entries, SegmentInfo
from spark_job.index.write_segment import write_new_segment
from spark_job.maintenance.choose_files import FileGroup, choose_files_to_compact, smallest_group
from spark_job.maintenance.foreign_files import commits_before_foreign_files
from spark_job.maintenance.move_rows import IndexMismatch, MovedRows, move_rows
from spark_job.maintenance.skipped_files import SkippedFiles
from spark_job.storage.discard import discard, discard_unless_committed
from spark_job.storage.translate_errors import translate_errors
from spark_job.write.live_row_counts import recount_deleted_rows
from spark_job.write.plan_deletes import deletes_only_for

log = get_log(__name__)


@dataclass(frozen=True)
class Compacted:
    """What a compaction did, and the root of the index after it."""

    files_before: int
    files_after: int
    rows: int
    root: Root


@dataclass(frozen=True)
class _CompactedRows:
    """The new data files of a commit, and the segment with the keys of their rows; None for a table without a key."""

    data_files: tuple[DataFile, ...]
    segment: SegmentInfo | None


def find_files_to_compact(mirror: Mirror, skipped_files: SkippedFiles) -> tuple[FileGroup, ...]:
    """Return the files to compact next; none while the index needs a repair."""
    return _choose(mirror, _compactable_files(mirror), skipped_files)


def compact(
    mirror: Mirror, shape: ChangelogShape, location: str, run_id: str, skipped_files: SkippedFiles
) -> Compacted | None:
    """Compact in one commit; None where no files are due. A group that cannot be compacted is skipped."""
    if mirror.root is None or mirror.cursor is None:
        return None
    live = _compactable_files(mirror)
    while groups := _choose(mirror, live, skipped_files):
        began = time.perf_counter()
        with discard_unless_committed(mirror.table.io) as written:
            attempts = (
                _compact_group(mirror, mirror.root, shape, group, skipped_files, written) for group in groups
            )
            moved_groups = [moved_rows for moved_rows in attempts if moved_rows is not None]
            if not moved_groups:
                continue
            moved = _index(mirror, mirror.root, shape, location, moved_groups, written)
            removed = tuple(file for moved_rows in moved_groups for file in moved_rows.group)
            paths = {file.path for file in removed}
            kept = {path: file for path, file in live.items() if path not in paths}
            root = root_after_compaction(mirror, mirror.root, moved, paths)
            check_live_row_counts(root, kept, moved.data_files, {})
            files = FileChanges(
                data_files=moved.data_files,
                replaced=deletes_only_for(removed, kept.values()),
                removed=removed,
                only_moves_rows=True,
            )
            commit_root(mirror, root, files, mirror.cursor, run_id, location, {})
        rows = sum(file.record_count for file in moved.data_files)
        compacted = Compacted(len(removed), len(moved.data_files), rows, root)
        log.info(
            "small data files compacted",
            files=compacted.files_before,
            into=compacted.files_after,
            rows=compacted.rows,
            seconds=round(time.perf_counter() - began, 4),
        )
        return compacted
    return None


def _compact_group(
    mirror: Mirror,
    root: Root,
    shape: ChangelogShape,
    group: FileGroup,
    skipped_files: SkippedFiles,
    written: list[str],
) -> MovedRows | None:
    """Move the rows of a group into new files, or of fewer files if memory is short; None where that fails."""
    before, smaller_group = len(written), group
    try:
        with translate_errors():
            moved = move_rows(mirror, root, shape, group, written)
            _check_moved(moved, group)
        if len(moved.data_files) < len(group):
            return moved
        reason = "no fewer files would result"
    except (IndexMismatch, DamagedSegment):
        raise
    except RowsExceedMemory:
        reason, smaller_group = "rows exceed the memory limit", smallest_group(group)
    except Corrupt as error:
        reason = str(error)
    discard(mirror.table.io, written[before:])
    del written[before:]
    if len(smaller_group) < len(group):
        return _compact_group(mirror, root, shape, smaller_group, skipped_files, written)
    skipped_files.add(group, reason)
    return None


def _check_moved(moved: MovedRows, group: FileGroup) -> None:
    """Check that every live row of the group is in a new file and in the index."""
    expected = sum(file.rows - file.deleted for file in group)
    found = sum(file.record_count for file in moved.data_files), len(moved.entries)
    if found != (expected, expected):
        raise Corrupt(
            f"{len(group)} files have {expected} live rows, but {found[0]} were moved and {found[1]} indexed; nothing "
            f"was committed. If it happens again, {REBUILD}. The first file: {group[0].path}"
        )


def _index(
    mirror: Mirror,
    root: Root,
    shape: ChangelogShape,
    location: str,
    moved_groups: Sequence[MovedRows],
    written: list[str],
) -> _CompactedRows:
    """Write the keys of all moved rows into one segment; new files get the ordinals after those of the root."""
    data_files = tuple(file for moved_rows in moved_groups for file in moved_rows.data_files)
    if shape.is_keyless:
        return _CompactedRows(data_files, None)
    first = np.cumsum([len(root.files), *(len(moved_rows.data_files) for moved_rows in moved_groups[:-1])])
    file = np.concatenate(
        [at + moved_rows.entries.file for at, moved_rows in zip(first, moved_groups, strict=True)]
    )
    keys = concat_keys([moved_rows.entries.keys for moved_rows in moved_groups])
    order = keys.argsort()
    entries = Entries(
        keys.take(order),
        file[order].astype(np.int32),
        np.concatenate([moved_rows.entries.pos for moved_rows in moved_groups])[order],
        np.concatenate([moved_rows.entries.orders for moved_rows in moved_groups])[order],
    )
    paths = {len(root.files) + at: file.file_path for at, file in enumerate(data_files)}
    segment = write_new_segment(mirror.table.io, location, entries, shape.key_definition, paths)
    if segment is None:
        raise Corrupt(f"{'.'.join(mirror.table.name())}: the files to compact have no rows")
    written.append(segment.path)
    reach("moved-indexed")
    return _CompactedRows(data_files, segment)


def _choose(
    mirror: Mirror, live: Mapping[str, LiveFile], skipped_files: SkippedFiles
) -> tuple[FileGroup, ...]:
    metadata = mirror.table.metadata
    foreign = commits_before_foreign_files(metadata, live)
    return choose_files_to_compact(
        [file for file in live.values() if file.path not in foreign and file not in skipped_files],
        metadata.default_spec_id,
        read_number(metadata.properties, TARGET_FILE_BYTES),
        with_row_ids=metadata.format_version >= 3,
    )


def _compactable_files(mirror: Mirror) -> Mapping[str, LiveFile]:
    """Return the live data files of the head; none while the index needs a repair."""
    if mirror.root is None or mirror.cursor is None or mirror.has_foreign_writes:
        return {}
    return recount_deleted_rows(mirror.table.io, live_files(mirror.table.io, mirror.head), mirror.root)


def root_after_compaction(mirror: Mirror, before: Root, moved: _CompactedRows, removed: Set[str]) -> Root:
    """Return the root after the commit: a new run for the moved rows, and the old files flagged as removed."""
    files = [
        file.model_copy(update={"live": 0, "removed": True}) if file.path in removed else file
        for file in before.files
    ]
    files.extend(map(IndexedFile.added, moved.data_files))
    now = int(time.time() * 1000)
    added = [moved.segment.with_run(before.next_run, now)] if moved.segment else []
    root = before.model_copy(
        update={
            "snapshot_id": mirror.table.metadata.new_snapshot_id(),
            "epoch": mirror.epoch + 1,
            "segments": (*added, *before.segments),
            "files": tuple(files),
            "next_run": before.next_run + 1,
        }
    )
    return drop_unreferenced_files(root)
