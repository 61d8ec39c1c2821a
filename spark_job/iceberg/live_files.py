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
from spark_job.storage.immutable_cache import FileCache

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
        """Identifies it: vectors of one Puffin file share a path."""
        return self.path, self.offset

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector."""
        return self.offset is not None


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of a snapshot. If it has a deletion vector, `deletes` is that vector alone.

    `deleted`: number of deletes, where another engine may have counted a row twice (see `recount`). `added_by`: the
    snapshot that added it. `number`: the data sequence number. `manifest`: the manifest that lists it.
    """

    path: str
    rows: int
    deleted: int
    spec_id: int
    partition: Record
    first_row_id: int | None = None
    deletes: tuple[LiveDelete, ...] = ()
    added_by: int | None = None
    number: int = 0
    manifest: str = ""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Deleted:
    """How many rows of a data file a delete removes."""

    data_path: str
    count: int
    by: LiveDelete


@dataclass(frozen=True)
class _Contents:
    """The data files or the deletes that a manifest lists."""

    data: Mapping[str, LiveFile]
    deleted: tuple[_Deleted, ...]

    def __len__(self) -> int:
        return 1 + len(self.data) + len(self.deleted)


_MAX_CACHED_FILES = 200_000
_contents: FileCache[_Contents] = FileCache(_MAX_CACHED_FILES, len)
_counts: FileCache[list[tuple[str, int]]] = FileCache(_MAX_CACHED_FILES, lambda counts: 1 + len(counts))


@dataclass(frozen=True)
class _SnapshotFiles:
    """The data files of one snapshot, the contents of each manifest, and the deletes of each data file."""

    manifest_list: str = ""
    parts: Mapping[str, _Contents] = field(default_factory=dict)
    files: Mapping[str, LiveFile] = field(default_factory=dict)
    deleted: Mapping[str, tuple[_Deleted, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return 1 + len(self.files)


_newest: FileCache[_SnapshotFiles] = FileCache(
    _MAX_CACHED_FILES, len
)  # by metadata folder: one for each table


def live_files(io: FileIO, snapshot: Snapshot | None) -> Mapping[str, LiveFile]:
    """Return path → data file of a snapshot."""
    if snapshot is None:
        return {}
    folder, _, _ = snapshot.manifest_list.rpartition("/")
    known = _newest.find(folder) or _SnapshotFiles()
    if known.manifest_list != snapshot.manifest_list:
        known = _advance(known, snapshot.manifest_list, _read_parts(io, snapshot))
        _newest.put(folder, known)
    return known.files


def _read_parts(io: FileIO, snapshot: Snapshot) -> dict[str, _Contents]:
    """Return the contents of each manifest."""
    parts: dict[str, _Contents] = {}
    for manifest in load_manifests(io, snapshot):
        # The first snapshot after an upgrade to v3 assigns first row ids to existing manifests.
        part = f"{manifest.manifest_path}#{manifest_first_row_id(manifest)}"
        parts[part] = _contents.get(part, partial(_read_manifest, io, manifest))
    return parts


def _advance(before: _SnapshotFiles, manifest_list: str, parts: Mapping[str, _Contents]) -> _SnapshotFiles:
    """Derive the files of another snapshot from the manifests that only one of the two lists: usually a few of many."""
    # An evicted manifest that was read again is a new object; deletes are compared by identity, so keep the first.
    parts = {name: before.parts.get(name, part) for name, part in parts.items()}
    removed = [part for name, part in before.parts.items() if name not in parts]
    added = [part for name, part in parts.items() if name not in before.parts]
    files, deleted = dict(before.files), dict(before.deleted)
    for path in (path for part in removed for path in part.data):
        files.pop(path, None)
    for part in added:
        for path in files.keys() & part.data.keys():
            raise _listed_twice(path)
        files.update(part.data)
    removed_deletes = {id(one) for part in removed for one in part.deleted}
    for path in {one.data_path for part in removed for one in part.deleted}:
        deleted[path] = tuple(one for one in deleted[path] if id(one) not in removed_deletes)
    for one in (one for part in added for one in part.deleted):
        deleted[one.data_path] = (*deleted.get(one.data_path, ()), one)
    touched = {one.data_path for part in (*removed, *added) for one in part.deleted}
    for path in touched.union(*(part.data for part in added)):
        if path in files:  # a delete may outlive its data file
            files[path] = _with_deletes(files[path], deleted.get(path, ()))
        if not deleted.get(path, True):
            del deleted[path]
    return _SnapshotFiles(manifest_list, parts, files, deleted)


def replaced_deletes(
    metadata: TableMetadata, doomed: Iterable[str], live: Mapping[str, LiveFile]
) -> list[LiveDelete]:
    """Return the deletes that new deletes for these data files replace: in v3 all that apply to one such file only."""
    if metadata.format_version < 3:
        return []
    return [delete for path in doomed for delete in live[path].deletes if not delete.shared]


def _with_deletes(file: LiveFile, found: Sequence[_Deleted]) -> LiveFile:
    """Attach the deletes. A deletion vector replaces all position delete files of its data file: "Scan Planning"."""
    vectors = [one for one in found if one.by.is_vector]
    if len(vectors) > 1:
        raise Corrupt(
            f"the snapshot has {len(vectors)} deletion vectors for one data file, but may have one. Rewrite the "
            f"table's position deletes with the engine that wrote them. The data file: {file.path}"
        )
    counted = vectors or found
    if not counted and not file.deletes:
        return file
    return replace(file, deleted=sum(one.count for one in counted), deletes=tuple(one.by for one in counted))


def _read_manifest(io: FileIO, manifest: ManifestFile) -> _Contents:
    entries = read_manifest_entries(io, manifest)
    if manifest.content is ManifestContent.DATA:
        data: dict[str, LiveFile] = {}
        for entry in entries:
            if entry.data_file.file_path in data:
                raise _listed_twice(entry.data_file.file_path)
            data[entry.data_file.file_path] = _data_file(entry, manifest.manifest_path)
        return _Contents(data, ())
    deleted: list[_Deleted] = []
    for entry in entries:
        deleted.extend(_read_delete(io, entry.data_file, manifest.manifest_path))
    return _Contents({}, tuple(deleted))


def _listed_twice(path: str) -> Invalid:
    return Invalid(
        "another writer added a data file to the mirror a second time, so readers see its rows twice; nothing was "
        f"merged. Roll the table back to the snapshot before that. The data file: {path}"
    )


def _data_file(entry: ManifestEntry, manifest: str) -> LiveFile:
    file = entry.data_file
    return LiveFile(
        path=file.file_path,
        rows=file.record_count,
        deleted=0,
        spec_id=file.spec_id,
        partition=file.partition,
        first_row_id=first_row_id(file),
        added_by=entry.snapshot_id,
        number=entry.sequence_number or 0,
        manifest=manifest,
        bytes=file.file_size_in_bytes,
    )


def _read_delete(io: FileIO, file: DataFile, manifest: str) -> list[_Deleted]:
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
        return [_Deleted(target, file.record_count, vector)]
    found = _counts.get(file.file_path, partial(_count_deletes, io, file))
    delete = LiveDelete(
        file.file_path, manifest, file.record_count, file.file_size_in_bytes, shared=len(found) > 1
    )
    return [_Deleted(path, count, delete) for path, count in found]


def _count_deletes(io: FileIO, file: DataFile) -> list[tuple[str, int]]:
    lower = (file.lower_bounds or {}).get(DELETED_PATH_ID)
    upper = (file.upper_bounds or {}).get(DELETED_PATH_ID)
    if lower is not None and lower == upper:
        return [(lower.decode(), file.record_count)]
    with open_parquet(io, file.file_path, file.record_count) as parquet:
        (paths,) = read_columns(parquet, file.file_path, (DELETED_PATH_ID,))
    if paths.null_count:
        raise Corrupt(f"a position delete has no data file: {file.file_path}")
    return [(pair["values"], pair["counts"]) for pair in paths.value_counts().to_pylist()]
