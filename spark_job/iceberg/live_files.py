"""The live data files of a snapshot, with their deletes. Each new snapshot is derived from the previous one's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from icemirror.errors import Corrupt, Invalid
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.iceberg.manifests import load_manifests
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from spark_job.pyiceberg_private.v3_fields import (
    DeleteKey,
    content_span,
    first_row_id,
    manifest_first_row_id,
    referenced_data_file,
)
from spark_job.storage.file_cache import FileCache

# Reserved field ids of the spec, "Position Delete Files".
DELETED_PATH_ID = 2147483546
DELETED_POS_ID = 2147483545


@dataclass(frozen=True, slots=True)
class LiveDelete:
    """A position delete file, or one deletion vector in a Puffin file. `shared`: it applies to several data files."""

    path: str
    manifest: str
    rows: int
    bytes: int
    offset: int | None = None
    shared: bool = False

    @property
    def key(self) -> DeleteKey:
        """The delete's identity: vectors of one Puffin file share a path."""
        return self.path, self.offset

    @property
    def is_vector(self) -> bool:
        """Return whether it is a deletion vector."""
        return self.offset is not None


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of a snapshot. If it has a deletion vector, `deletes` is that vector alone.

    `deleted_rows`: number of deletes, where another engine may have counted a row twice (see `recount_deleted_rows`).
    `added_by`: the snapshot that added it. `manifest`: the manifest that lists it.
    """

    path: str
    rows: int
    deleted_rows: int
    spec_id: int
    partition: Record
    first_row_id: int | None = None
    deletes: tuple[LiveDelete, ...] = ()
    added_by: int | None = None
    data_sequence_number: int = 0
    manifest: str = ""
    bytes: int = 0

    @property
    def live_rows(self) -> int:
        """The number of rows that no delete removes."""
        return self.rows - self.deleted_rows


@dataclass(frozen=True, slots=True)
class _DeletedRows:
    """How many rows of a data file a delete removes. Equal ones come from one manifest."""

    data_path: str
    count: int
    delete: LiveDelete


@dataclass(frozen=True)
class _ManifestContents:
    """The data files or the deletes that a manifest lists."""

    data: Mapping[str, LiveFile]
    deleted: tuple[_DeletedRows, ...]

    def __len__(self) -> int:
        return 1 + len(self.data) + len(self.deleted)


_MAX_CACHED_FILES = 200_000
_contents: FileCache[_ManifestContents] = FileCache(_MAX_CACHED_FILES, len)
_counts: FileCache[list[tuple[str, int]]] = FileCache(_MAX_CACHED_FILES, lambda counts: 1 + len(counts))


@dataclass(frozen=True)
class _SnapshotFiles:
    """The data files of one snapshot, the contents of each manifest, and the deletes of each data file."""

    manifest_list: str = ""
    contents_by_manifest: Mapping[str, _ManifestContents] = field(default_factory=dict)
    files: Mapping[str, LiveFile] = field(default_factory=dict)
    deleted: Mapping[str, tuple[_DeletedRows, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return 1 + len(self.files)


# The key is the metadata folder, so there is one snapshot for each table.
_newest_by_folder: FileCache[_SnapshotFiles] = FileCache(_MAX_CACHED_FILES, len)


def live_files(io: FileIO, snapshot: Snapshot | None) -> Mapping[str, LiveFile]:
    """Return path → data file of a snapshot."""
    if snapshot is None:
        return {}
    folder, _, _ = snapshot.manifest_list.rpartition("/")
    snapshot_files = _newest_by_folder.find(folder) or _SnapshotFiles()
    if snapshot_files.manifest_list != snapshot.manifest_list:
        snapshot_files = _derive_files(snapshot_files, snapshot.manifest_list, _read_contents(io, snapshot))
        _newest_by_folder.put(folder, snapshot_files)
    return snapshot_files.files


def _read_contents(io: FileIO, snapshot: Snapshot) -> dict[str, _ManifestContents]:
    """Return the contents of each manifest."""
    contents_by_manifest: dict[str, _ManifestContents] = {}
    for manifest in load_manifests(io, snapshot):
        # The first snapshot after an upgrade to v3 assigns first row ids to existing manifests.
        name = f"{manifest.manifest_path}#{manifest_first_row_id(manifest)}"
        contents_by_manifest[name] = _contents.get(name, partial(_read_manifest, io, manifest))
    return contents_by_manifest


def _derive_files(
    previous: _SnapshotFiles, manifest_list: str, contents_by_manifest: Mapping[str, _ManifestContents]
) -> _SnapshotFiles:
    """Return the files of another snapshot, derived from the manifests that only one of the two lists: usually few."""
    removed = [
        contents
        for name, contents in previous.contents_by_manifest.items()
        if name not in contents_by_manifest
    ]
    added = [
        contents
        for name, contents in contents_by_manifest.items()
        if name not in previous.contents_by_manifest
    ]
    files, deleted = dict(previous.files), dict(previous.deleted)
    for path in (path for contents in removed for path in contents.data):
        files.pop(path, None)
    for contents in added:
        if listed_twice := files.keys() & contents.data.keys():
            raise _listed_twice(min(listed_twice))
        files.update(contents.data)
    removed_deletes = {deleted_rows for contents in removed for deleted_rows in contents.deleted}
    for path in {deleted_rows.data_path for deleted_rows in removed_deletes}:
        deleted[path] = tuple(
            deleted_rows for deleted_rows in deleted[path] if deleted_rows not in removed_deletes
        )
    for deleted_rows in (deleted_rows for contents in added for deleted_rows in contents.deleted):
        deleted[deleted_rows.data_path] = (*deleted.get(deleted_rows.data_path, ()), deleted_rows)
    touched = {deleted_rows.data_path for contents in (*removed, *added) for deleted_rows in contents.deleted}
    for path in touched.union(*(contents.data for contents in added)):
        if path in files:  # a delete may outlive its data file
            files[path] = _with_deletes(files[path], deleted.get(path, ()))
        if not deleted.get(path, True):
            del deleted[path]
    return _SnapshotFiles(manifest_list, contents_by_manifest, files, deleted)


def replaced_deletes(
    metadata: TableMetadata, paths: Iterable[str], live: Mapping[str, LiveFile]
) -> list[LiveDelete]:
    """Return the deletes that new vectors for these data files replace: those that apply to one file only (v3)."""
    if metadata.format_version < 3:
        return []
    return [delete for path in paths for delete in live[path].deletes if not delete.shared]


def _with_deletes(file: LiveFile, deletes: Sequence[_DeletedRows]) -> LiveFile:
    """Attach the deletes. A deletion vector replaces all position delete files of its data file: "Scan Planning"."""
    vectors = [deleted_rows for deleted_rows in deletes if deleted_rows.delete.is_vector]
    if len(vectors) > 1:
        raise Corrupt(
            f"the snapshot has {len(vectors)} deletion vectors for one data file, but may have one. Rewrite the "
            f"table's position deletes with the engine that wrote them. The data file: {file.path}"
        )
    counted = vectors or deletes
    if not counted and not file.deletes:
        return file
    return replace(
        file,
        deleted_rows=sum(deleted_rows.count for deleted_rows in counted),
        deletes=tuple(deleted_rows.delete for deleted_rows in counted),
    )


def _read_manifest(io: FileIO, manifest: ManifestFile) -> _ManifestContents:
    entries = read_manifest_entries(io, manifest)
    if manifest.content is ManifestContent.DATA:
        data: dict[str, LiveFile] = {}
        for entry in entries:
            if entry.data_file.file_path in data:
                raise _listed_twice(entry.data_file.file_path)
            data[entry.data_file.file_path] = _to_live_file(entry, manifest.manifest_path)
        return _ManifestContents(data, ())
    deleted: list[_DeletedRows] = []
    for entry in entries:
        deleted.extend(_read_delete(io, entry.data_file, manifest.manifest_path))
    return _ManifestContents({}, tuple(deleted))


def _listed_twice(path: str) -> Invalid:
    return Invalid(
        "another writer added a data file to the mirror a second time, so readers see its rows twice; nothing was "
        f"merged. Roll the table back to the snapshot before that. The data file: {path}"
    )


def _to_live_file(entry: ManifestEntry, manifest: str) -> LiveFile:
    file = entry.data_file
    return LiveFile(
        path=file.file_path,
        rows=file.record_count,
        deleted_rows=0,
        spec_id=file.spec_id,
        partition=file.partition,
        first_row_id=first_row_id(file),
        added_by=entry.snapshot_id,
        data_sequence_number=entry.sequence_number or 0,
        manifest=manifest,
        bytes=file.file_size_in_bytes,
    )


def _read_delete(io: FileIO, file: DataFile, manifest: str) -> list[_DeletedRows]:
    """Return what a delete file removes from each data file."""
    if file.content is not DataFileContent.POSITION_DELETES:
        raise Invalid(
            "the mirror has equality deletes, which do not identify rows by position. Rewrite the table's data files "
            f"with the engine that wrote them, then merge again. The delete file: {file.file_path}"
        )
    if file.file_format is FileFormat.PUFFIN:
        target, span = referenced_data_file(file), content_span(file)
        if target is None or span is None:
            raise Corrupt(
                f"a deletion vector lacks its data file, or its offset and length: {file.file_path}"
            )
        vector = LiveDelete(file.file_path, manifest, file.record_count, span[1], span[0])
        return [_DeletedRows(target, file.record_count, vector)]
    counts = _counts.get(file.file_path, partial(_count_deletes, io, file))
    delete = LiveDelete(
        file.file_path, manifest, file.record_count, file.file_size_in_bytes, shared=len(counts) > 1
    )
    return [_DeletedRows(path, count, delete) for path, count in counts]


def _count_deletes(io: FileIO, file: DataFile) -> list[tuple[str, int]]:
    """Return the data files that a position delete file applies to, with the number of deletes of each."""
    lower = (file.lower_bounds or {}).get(DELETED_PATH_ID)
    upper = (file.upper_bounds or {}).get(DELETED_PATH_ID)
    if lower is not None and lower == upper:
        return [(lower.decode(), file.record_count)]
    with open_parquet(io, file.file_path, file.record_count) as parquet:
        (paths,) = read_columns(parquet, file.file_path, (DELETED_PATH_ID,))
    if paths.null_count:
        raise Corrupt(f"a position delete has no data file: {file.file_path}")
    return [(pair["values"], pair["counts"]) for pair in paths.value_counts().to_pylist()]
