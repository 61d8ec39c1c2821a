"""Finds the row of a key: at the location in the index, else by searching data files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.table.snapshots import Operation, Snapshot

from icemirror.errors import Corrupt, insert_table_name
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.read_rows import read_rows
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.added_columns import DELETED_FLAG
from spark_job.columns.missing_columns import MissingColumns
from spark_job.columns.parquet_columns import column_names, open_parquet, read_rows_at
from spark_job.commands.explain.key_events import OnFilesRead, find_rows
from spark_job.commands.explain.prune_files import KeyColumnValue, find_candidate_files
from spark_job.commands.explain.requested_key import RequestedKey
from spark_job.commands.report_model import UnreadableFile, without_path
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.merged_schema import known_metadata_columns
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.property_names import PROPERTY_CURSOR
from spark_job.index.damaged_segment import DamagedSegment
from spark_job.index.root import Root
from spark_job.maintenance.index_foreign_writes import compare_files
from spark_job.merge.locate import ABSENT, SearchableIndex, read_key_entries
from spark_job.write.read_deletes import read_deleted_positions


@dataclass(frozen=True, slots=True)
class RowLocation:
    """A row of a data file."""

    path: str
    position: int


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """The index entry of a key: a row, a tombstone (no location), or nothing (no order either)."""

    location: RowLocation | None = None
    order: tuple[int, ...] | None = None


class EntryCheck(StrEnum):
    """What the table has where the index points."""

    FOUND = "there"
    NO_FILE = "no-file"
    DELETED = "deleted"
    OTHER_KEY = "other-key"


class FileWriter(StrEnum):
    """Who added a data file to the mirror."""

    MERGE = "merge"
    COMPACTION = "compaction"
    OTHER = "another-writer"
    UNKNOWN = "unknown"


def look_up_entry(mirror: Mirror, root: Root, shape: ChangelogShape, key: RequestedKey) -> KeyEntry:
    """Return the entry of the key in the index; raises `DamagedSegment` if a segment cannot be read."""
    index = SearchableIndex(mirror.table.io, root.segments, root.removed_ordinals)
    lowest = (0,) * (shape.sequence.parts + 1)
    key_entries = read_key_entries(index, shape.key_codec.encode(key.arrays), lowest)
    file = int(key_entries.file[0])
    if file == ABSENT:
        return KeyEntry()
    location = RowLocation(root.files[file].path, int(key_entries.pos[0])) if file >= 0 else None
    return KeyEntry(location, tuple(int(part) for part in key_entries.orders[0]))


@dataclass(frozen=True)
class DataFiles:
    """The live data files of a mirror's head."""

    mirror: Mirror
    live: Mapping[str, LiveFile]
    key_ids: tuple[int, ...]

    def check(self, location: RowLocation, key: RequestedKey) -> EntryCheck:
        """Return whether the row exists, is live, and has this key."""
        io, file = self.mirror.table.io, self.live.get(location.path)
        if file is None:
            return EntryCheck.NO_FILE
        if location.position >= file.rows:
            return EntryCheck.OTHER_KEY
        if location.position in self._deleted_positions(file):
            return EntryCheck.DELETED
        with open_parquet(io, file.path, file.rows) as parquet:
            columns = read_rows_at(
                parquet, file.path, self.key_ids, np.array([location.position], dtype=np.int64)
            )
        return EntryCheck.FOUND if key.find_rows(columns)[0] else EntryCheck.OTHER_KEY

    def search(self, path: str, key: RequestedKey) -> list[RowLocation]:
        """Return the live rows of the key in a data file."""
        file = self.live[path]
        with open_parquet(self.mirror.table.io, path, file.rows) as parquet:
            rows = find_rows(parquet, path, self.key_ids, key)
        if len(rows):
            rows = np.setdiff1d(rows, self._deleted_positions(file))
        return [RowLocation(path, int(row)) for row in rows]

    def read(self, location: RowLocation) -> pa.Table:
        """Return all columns of a row."""
        file = self.live[location.path]
        identity_map = {mirror_id: mirror_id for mirror_id in self.mirror.field_map.values()}
        metadata = self.mirror.table.metadata
        missing_values = MissingColumns(metadata.schema(), metadata.specs()).values_in_file(
            file.spec_id, file.partition
        )
        listed_file = ChangelogFile(file.path, file.bytes, file.rows, 0, 0, tuple(missing_values.items()))
        first_file, row = np.zeros(1, dtype=np.uint32), np.array([location.position], dtype=np.uint32)
        return read_rows(
            self.mirror.table.io, [listed_file], first_file, row, identity_map, self.mirror.row_schema
        )

    def is_flagged(self, location: RowLocation) -> bool:
        """Return whether a row is flagged as deleted."""
        flag_id = known_metadata_columns(self.mirror.table.metadata).get(DELETED_FLAG)
        with open_parquet(self.mirror.table.io, location.path) as parquet:
            if flag_id is None or flag_id not in column_names(parquet, location.path):
                return False
            (flag,) = read_rows_at(
                parquet, location.path, (flag_id,), np.array([location.position], dtype=np.int64)
            )
        return flag[0].as_py() is True

    def added_since(self, root: Root) -> list[str]:
        """Return the data files that another writer added since the index was written."""
        return (
            [file.path for file in compare_files(root, self.live).added]
            if self.mirror.has_foreign_writes
            else []
        )

    def _deleted_positions(self, file: LiveFile) -> NDArray[np.int64]:
        positions: NDArray[np.int64] = read_deleted_positions(self.mirror.table.io, {file.path: file})[
            file.path
        ]
        return positions


def find_writer(snapshots: Iterable[Snapshot], added_by: int | None) -> tuple[FileWriter, Snapshot | None]:
    """Return who added a data file, and the snapshot that did; None if it has expired."""
    adding_snapshot = next((snapshot for snapshot in snapshots if snapshot.snapshot_id == added_by), None)
    if adding_snapshot is None or adding_snapshot.summary is None:
        return FileWriter.UNKNOWN, adding_snapshot
    if PROPERTY_CURSOR not in adding_snapshot.summary.additional_properties:
        return FileWriter.OTHER, adding_snapshot
    is_compaction = adding_snapshot.summary.operation is Operation.REPLACE
    return (FileWriter.COMPACTION if is_compaction else FileWriter.MERGE), adding_snapshot


@dataclass(frozen=True)
class FoundRow:
    """The live rows of the key, at most one in a correct mirror. `entry` is None if the index cannot be read.

    `values`: all columns of the first row, if it can be read. `is_flagged`: it is flagged as deleted.
    `is_complete`: every file that may hold the row was read. `searched_count`: how many live data files were read.
    """

    files: DataFiles
    entry: KeyEntry | None
    check: EntryCheck | None = None
    rows: tuple[RowLocation, ...] = ()
    values: pa.Table | None = None
    is_complete: bool = True
    searched_count: int = 0
    unreadable: tuple[UnreadableFile, ...] = field(default_factory=tuple)
    is_flagged: bool = False


def find_row(
    mirror: Mirror,
    shape: ChangelogShape,
    key: RequestedKey,
    key_ids: tuple[int, ...],
    files_read: OnFilesRead,
    *,
    row_expected: bool,
) -> FoundRow:
    """Return the row of the key: the one that the index points at, or one in files that other writers added since.

    All files are searched if the index cannot be read, or if the row is missing although the index or the changelog
    (`row_expected`) has it.
    """
    name = ".".join(mirror.table.name())
    files = DataFiles(mirror, live_files(mirror.table.io, mirror.head), key_ids)
    unreadable: list[UnreadableFile] = []
    entry = _read_entry(mirror, shape, key, unreadable)
    check: EntryCheck | None = None
    rows: list[RowLocation] = []
    searched_paths = set[str]()
    if entry is not None and entry.location is not None:
        searched_paths.add(entry.location.path)
        try:
            check = files.check(entry.location, key)
        except Corrupt as error:
            unreadable.append(_describe_unreadable(entry.location.path, error, name))
        rows += [entry.location] if check is EntryCheck.FOUND else []
    foreign_paths = files.added_since(mirror.root) if mirror.root else []
    search_all_files = not rows and (row_expected or entry is None or entry.location is not None)
    candidates = _find_candidates(files, list(files.live) if search_all_files else foreign_paths, key)
    unreadable_paths = {file.path for file in unreadable}
    for path in candidates:
        try:
            if path not in unreadable_paths:
                rows += [row for row in files.search(path, key) if row not in rows]
        except Corrupt as error:
            unreadable.append(_describe_unreadable(path, error, name))
        files_read(1)
    is_complete = bool(rows) or not any(file.path in files.live for file in unreadable)
    values: pa.Table | None = None
    is_flagged = False
    if rows:
        try:
            values = files.read(rows[0])
            is_flagged = shape.keeps_deleted_rows and files.is_flagged(rows[0])
        except Corrupt as error:
            unreadable.append(_describe_unreadable(rows[0].path, error, name))
    searched_count = len(files.live.keys() & searched_paths.union(candidates))
    return FoundRow(
        files, entry, check, tuple(rows), values, is_complete, searched_count, tuple(unreadable), is_flagged
    )


def _read_entry(
    mirror: Mirror, shape: ChangelogShape, key: RequestedKey, unreadable: list[UnreadableFile]
) -> KeyEntry | None:
    if mirror.root_unreadable:
        problem = "the root of the index is missing or fails its checksum"
        unreadable.append(UnreadableFile(path=mirror.root_path or "", what=problem))
        return None
    if mirror.root is None:
        return KeyEntry()
    try:
        return look_up_entry(mirror, mirror.root, shape, key)
    except DamagedSegment as error:
        unreadable.append(_describe_unreadable(error.path, error, ".".join(mirror.table.name())))
        return None


def _find_candidates(files: DataFiles, paths: Sequence[str], key: RequestedKey) -> list[str]:
    """Return the files that may hold the key."""
    if not paths or files.mirror.head is None:
        return []
    key_values = key_column_values(key, files.key_ids)
    candidates = find_candidate_files(files.mirror.table, [files.mirror.head.snapshot_id], key_values)
    return [path for path in paths if candidates.get(path, True)]


def key_column_values(key: RequestedKey, key_ids: Sequence[int]) -> list[KeyColumnValue]:
    """Return the values that a row must have, by the field ids of its table."""
    return [
        KeyColumnValue(field_id, column.field.field_type, column.value)
        for field_id, column in zip(key_ids, key.columns, strict=True)
    ]


def _describe_unreadable(path: str, error: Corrupt, table: str) -> UnreadableFile:
    insert_table_name(error, table)
    return UnreadableFile(path=path, what=without_path(str(error), path))
