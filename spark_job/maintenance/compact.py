"""Compacts small data files of a mirror in one commit: read → check against the index → write → index → commit.

No row changes. The commit is a `replace`, which consumers of the mirror's changes skip. It is fenced on the head that
was read; after a conflict the next merge tries again. Files of other engines are not compacted while the snapshot
that added them exists: a rebuild of the index derives the order of their rows from it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from pyiceberg.manifest import DataFile

from icemirror.errors import REBUILD_ADVICE, Corrupt
from icemirror.processes.crash_points import crash_point
from icemirror.tables.mirror_properties import TARGET_FILE_BYTES
from icemirror.telemetry.logs import get_log
from spark_job.changelog.read_rows import RowsExceedMemory
from spark_job.changelog.shape import ChangelogShape
from spark_job.commit.commit_snapshot import FileChanges, check_live_row_counts, commit_and_expire
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.write_properties import read_number
from spark_job.index.damaged_segment import DamagedSegment
from spark_job.index.keys import concat_keys
from spark_job.index.root import IndexedFile, Root, drop_unreferenced_files
from spark_job.index.segment import Entries, SegmentInfo
from spark_job.index.write_segment import write_new_segment
from spark_job.maintenance.choose_files import FileGroup, choose_files_to_compact, first_files
from spark_job.maintenance.foreign_files import commits_before_foreign_files
from spark_job.maintenance.move_rows import IndexMismatch, MovedRows, move_rows
from spark_job.storage.discard import discard, discard_unless_committed
from spark_job.storage.translate_errors import translate_errors
from spark_job.write.plan_deletes import exclusive_deletes
from spark_job.write.read_deletes import recount_deleted_rows

log = get_log(__name__)


class SkippedFiles:
    """Data files that could not be compacted: a process tries each of them once.

    They are identified by their paths, which Iceberg never reuses.
    """

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def __contains__(self, file: LiveFile) -> bool:
        return file.path in self._paths

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, files: Iterable[LiveFile], reason: str) -> None:
        """Skip these files until the process ends."""
        paths = [file.path for file in files]
        self._paths.update(paths)
        log.warning("small data files skipped", files=len(paths), first=paths[0], reason=reason)


@dataclass(frozen=True)
class Compaction:
    """The effect of a compaction, and the root of the index after it."""

    files_before: int
    files_after: int
    rows: int
    root: Root


@dataclass(frozen=True)
class _CompactionFiles:
    """The new data files of a commit, and the segment with the keys of their rows; None for a table without a key."""

    data_files: tuple[DataFile, ...]
    segment: SegmentInfo | None


def find_files_to_compact(mirror: Mirror, skipped_files: SkippedFiles) -> tuple[FileGroup, ...]:
    """Return the files to compact next; none while the index needs a repair."""
    return _choose_groups(mirror, _compactable_files(mirror), skipped_files)


def count_skipped_files(mirror: Mirror, skipped_files: SkippedFiles) -> int:
    """Return how many data files of a mirror are skipped; `skipped_files` may contain those of other tables."""
    if not len(skipped_files):
        return 0
    return sum(file in skipped_files for file in live_files(mirror.table.io, mirror.head).values())


def compact(
    mirror: Mirror, shape: ChangelogShape, location: str, run_id: str, skipped_files: SkippedFiles
) -> Compaction | None:
    """Compact in one commit. Return None if no files are due. A group that cannot be compacted is skipped."""
    if mirror.root is None or mirror.cursor is None:
        return None
    live = _compactable_files(mirror)
    began = time.perf_counter()
    with discard_unless_committed(mirror.table.io) as written:
        moved_groups = _move_groups(mirror, mirror.root, shape, live, skipped_files, written)
        if not moved_groups:
            return None
        new_files = _index_moved_rows(mirror, mirror.root, shape, location, moved_groups, written)
        removed = tuple(file for moved_rows in moved_groups for file in moved_rows.group)
        removed_paths = {file.path for file in removed}
        remaining = {path: file for path, file in live.items() if path not in removed_paths}
        root = root_after_compaction(mirror, mirror.root, new_files, removed_paths)
        check_live_row_counts(root, remaining, new_files.data_files, {})
        file_changes = FileChanges(
            data_files=new_files.data_files,
            replaced_deletes=exclusive_deletes(removed, remaining.values()),
            removed_data_files=removed,
            only_moves_rows=True,
        )
        commit_and_expire(mirror, root, file_changes, mirror.cursor, run_id, location, {})
    rows = sum(file.record_count for file in new_files.data_files)
    result = Compaction(len(removed), len(new_files.data_files), rows, root)
    log.info(
        "small data files compacted",
        files=result.files_before,
        into=result.files_after,
        rows=result.rows,
        seconds=round(time.perf_counter() - began, 4),
    )
    return result


def _move_groups(
    mirror: Mirror,
    root: Root,
    shape: ChangelogShape,
    live: Mapping[str, LiveFile],
    skipped_files: SkippedFiles,
    written: list[str],
) -> list[MovedRows]:
    """Move the rows of the groups that are due. If no group can be moved, try the groups that remain."""
    while groups := _choose_groups(mirror, live, skipped_files):
        attempts = [_move_group(mirror, root, shape, group, skipped_files, written) for group in groups]
        if moved_groups := [moved_rows for moved_rows in attempts if moved_rows is not None]:
            return moved_groups
    return []


def _move_group(
    mirror: Mirror,
    root: Root,
    shape: ChangelogShape,
    group: FileGroup,
    skipped_files: SkippedFiles,
    written: list[str],
) -> MovedRows | None:
    """Move the rows of a group into new files, or of fewer files if memory is short; None if that fails."""
    written_before, smaller_group = len(written), group
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
        reason, smaller_group = "rows exceed the memory limit", first_files(group)
    except Corrupt as error:
        reason = str(error)
    discard(mirror.table.io, written[written_before:])
    del written[written_before:]
    if len(smaller_group) < len(group):
        return _move_group(mirror, root, shape, smaller_group, skipped_files, written)
    skipped_files.add(group, reason)
    return None


def _check_moved(moved: MovedRows, group: FileGroup) -> None:
    """Raise `Corrupt` unless every live row of the group is in a new file, and in the index if it has a key."""
    live = sum(file.live_rows for file in group)
    written = sum(file.record_count for file in moved.data_files)
    indexed = written if moved.entries is None else len(moved.entries)
    if (written, indexed) != (live, live):
        raise Corrupt(
            f"{len(group)} files have {live} live rows, but {written} were moved and {indexed} indexed; nothing "
            f"was committed. If it happens again, {REBUILD_ADVICE}. The first file: {group[0].path}"
        )


def _index_moved_rows(
    mirror: Mirror,
    root: Root,
    shape: ChangelogShape,
    location: str,
    moved_groups: Sequence[MovedRows],
    written: list[str],
) -> _CompactionFiles:
    """Write the keys of all moved rows into one segment; new files get the ordinals after those of the root."""
    data_files = tuple(file for moved_rows in moved_groups for file in moved_rows.data_files)
    if shape.is_keyless:
        return _CompactionFiles(data_files, None)
    first_ordinals = np.cumsum(
        [len(root.files), *(len(moved_rows.data_files) for moved_rows in moved_groups[:-1])]
    )
    moved_entries = [moved_rows.entries for moved_rows in moved_groups if moved_rows.entries is not None]
    file = np.concatenate(
        [first + entries.file for first, entries in zip(first_ordinals, moved_entries, strict=True)]
    )
    keys = concat_keys([entries.keys for entries in moved_entries])
    order = keys.argsort()
    entries = Entries(
        keys.take(order),
        file[order].astype(np.int32),
        np.concatenate([entries.pos for entries in moved_entries])[order],
        np.concatenate([entries.orders for entries in moved_entries])[order],
    )
    paths = {ordinal: file.file_path for ordinal, file in enumerate(data_files, len(root.files))}
    segment = write_new_segment(mirror.table.io, location, entries, shape.key_definition, paths)
    if segment is None:
        raise Corrupt(f"{'.'.join(mirror.table.name())}: the files to compact have no rows")
    written.append(segment.path)
    crash_point("moved-indexed")
    return _CompactionFiles(data_files, segment)


def _choose_groups(
    mirror: Mirror, live: Mapping[str, LiveFile], skipped_files: SkippedFiles
) -> tuple[FileGroup, ...]:
    metadata = mirror.table.metadata
    foreign_paths = commits_before_foreign_files(metadata, live).keys()
    return choose_files_to_compact(
        [file for file in live.values() if file.path not in foreign_paths and file not in skipped_files],
        metadata.default_spec_id,
        read_number(metadata.properties, TARGET_FILE_BYTES),
        with_row_ids=metadata.format_version >= 3,
    )


def _compactable_files(mirror: Mirror) -> Mapping[str, LiveFile]:
    """Return the live data files of the head; none while the index needs a repair."""
    if mirror.root is None or mirror.cursor is None or mirror.has_foreign_writes:
        return {}
    return recount_deleted_rows(mirror.table.io, live_files(mirror.table.io, mirror.head), mirror.root)


def root_after_compaction(
    mirror: Mirror, old_root: Root, new_files: _CompactionFiles, removed_paths: Set[str]
) -> Root:
    """Return the root after the commit: a new run for the moved rows, and the old files flagged as removed."""
    files = [
        file.model_copy(update={"live_rows": 0, "removed": True}) if file.path in removed_paths else file
        for file in old_root.files
    ]
    files.extend(map(IndexedFile.for_new_file, new_files.data_files))
    now_ms = int(time.time() * 1000)
    segment = new_files.segment
    new_segments = [segment.with_sorted_run(old_root.next_sorted_run, now_ms)] if segment else []
    root = old_root.model_copy(
        update={
            "snapshot_id": mirror.table.metadata.new_snapshot_id(),
            "epoch": mirror.epoch + 1,
            "segments": (*new_segments, *old_root.segments),
            "files": tuple(files),
            "next_sorted_run": old_root.next_sorted_run + 1,
        }
    )
    return drop_unreferenced_files(root)
