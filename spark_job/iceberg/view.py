"""The live data files of a mirror's snapshot: rows, deleted rows, partition, and what holds their deletes."""

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
from spark_job.files.immutable import ReadOnce
from spark_job.iceberg.manifests import known_manifests
from spark_job.iceberg.seams import read_entries
from spark_job.iceberg.v3_fields import (
    DeleteKey,
    content_span,
    first_row_id,
    manifest_first_row_id,
    referenced_data_file,
)

# Reserved field ids of the spec, "Position Delete Files".
DELETED_PATH_ID = 2147483546
DELETED_POS_ID = 2147483545


@dataclass(frozen=True, slots=True)
class LiveDelete:
    """A file of position deletes, or one deletion vector of a Puffin file. `shared`: of several data files."""

    path: str
    manifest: str
    rows: int
    bytes: int
    offset: int | None = None
    shared: bool = False

    @property
    def key(self) -> DeleteKey:
        """What tells it from others."""
        return self.path, self.offset

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector."""
        return self.offset is not None


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file that the snapshot reads. `deletes` is its deletion vector alone if it has one.

    `deleted` is what its deletes count together. Others may have deleted a row twice: see `recount`. `added_by` is the
    snapshot that the table says added it, `number` the sequence number of its rows, `manifest` the one that names it.
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
    """How many rows of a data file a delete takes away."""

    data_path: str
    count: int
    by: LiveDelete


@dataclass(frozen=True)
class _Contents:
    data: Mapping[str, LiveFile]
    deleted: tuple[_Deleted, ...]

    def __len__(self) -> int:
        return 1 + len(self.data) + len(self.deleted)


_MOST_FILES = 200_000
_contents: ReadOnce[_Contents] = ReadOnce(_MOST_FILES, len)
_counts: ReadOnce[list[tuple[str, int]]] = ReadOnce(_MOST_FILES, lambda counts: 1 + len(counts))


@dataclass(frozen=True)
class _View:
    """The data files of one snapshot, what each of its manifests names, and the deletes of each data file."""

    manifest_list: str = ""
    parts: Mapping[str, _Contents] = field(default_factory=dict)
    files: Mapping[str, LiveFile] = field(default_factory=dict)
    deleted: Mapping[str, tuple[_Deleted, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return 1 + len(self.files)


_newest: ReadOnce[_View] = ReadOnce(
    _MOST_FILES, len
)  # by the folder of a table's metadata: one for each table


def live_files(io: FileIO, snapshot: Snapshot | None) -> Mapping[str, LiveFile]:
    """The data files of a snapshot by path."""
    if snapshot is None:
        return {}
    folder, _, _ = snapshot.manifest_list.rpartition("/")
    view = _newest.find(folder) or _View()
    if view.manifest_list != snapshot.manifest_list:
        view = _move_on(view, snapshot.manifest_list, _read_parts(io, snapshot))
        _newest.put(folder, view)
    return view.files


def _read_parts(io: FileIO, snapshot: Snapshot) -> dict[str, _Contents]:
    """What each manifest names."""
    parts: dict[str, _Contents] = {}
    for manifest in known_manifests(io, snapshot):
        # The first snapshot after an upgrade to v3 numbers the manifests that it finds.
        part = f"{manifest.manifest_path}#{manifest_first_row_id(manifest)}"
        parts[part] = _contents.get(part, partial(_read_manifest, io, manifest))
    return parts


def _move_on(before: _View, manifest_list: str, parts: Mapping[str, _Contents]) -> _View:
    """The view of another snapshot, by the manifests that only one of the two has: most commits write a few of many."""
    # One that was forgotten and read again is another object, but the deletes of the view are those of the first.
    parts = {name: before.parts.get(name, part) for name, part in parts.items()}
    left = [part for name, part in before.parts.items() if name not in parts]
    come = [part for name, part in parts.items() if name not in before.parts]
    files, deleted = dict(before.files), dict(before.deleted)
    for path in (path for part in left for path in part.data):
        files.pop(path, None)
    for part in come:
        for path in files.keys() & part.data.keys():
            raise _named_twice(path)
        files.update(part.data)
    passed = {id(one) for part in left for one in part.deleted}
    for path in {one.data_path for part in left for one in part.deleted}:
        deleted[path] = tuple(one for one in deleted[path] if id(one) not in passed)
    for one in (one for part in come for one in part.deleted):
        deleted[one.data_path] = (*deleted.get(one.data_path, ()), one)
    touched = {one.data_path for part in (*left, *come) for one in part.deleted}
    for path in touched.union(*(part.data for part in come)):
        if path in files:  # a delete may outlive its data file
            files[path] = _with_deletes(files[path], deleted.get(path, ()))
        if not deleted.get(path, True):
            del deleted[path]
    return _View(manifest_list, parts, files, deleted)


def replaced_deletes(
    metadata: TableMetadata, doomed: Iterable[str], live: Mapping[str, LiveFile]
) -> list[LiveDelete]:
    """What new deletes for these data files take the place of: in v3 all that is about one such file only."""
    if metadata.format_version < 3:
        return []
    return [delete for path in doomed for delete in live[path].deletes if not delete.shared]


def _with_deletes(file: LiveFile, found: Sequence[_Deleted]) -> LiveFile:
    """A deletion vector stands for all position deletes of its file; the spec, "Scan Planning"."""
    vectors = [one for one in found if one.by.is_vector]
    if len(vectors) > 1:
        raise Corrupt(
            f"{file.path}: the snapshot has {len(vectors)} deletion vectors for it, but one data file may have one. "
            "Rewrite the table's position deletes with the engine that wrote them."
        )
    counted = vectors or found
    if not counted and not file.deletes:
        return file
    return replace(file, deleted=sum(one.count for one in counted), deletes=tuple(one.by for one in counted))


def _read_manifest(io: FileIO, manifest: ManifestFile) -> _Contents:
    entries = read_entries(io, manifest)
    if manifest.content is ManifestContent.DATA:
        data: dict[str, LiveFile] = {}
        for entry in entries:
            if entry.data_file.file_path in data:
                raise _named_twice(entry.data_file.file_path)
            data[entry.data_file.file_path] = _data_file(entry, manifest.manifest_path)
        return _Contents(data, ())
    deleted: list[_Deleted] = []
    for entry in entries:
        deleted.extend(_read_delete(io, entry.data_file, manifest.manifest_path))
    return _Contents({}, tuple(deleted))


def _named_twice(path: str) -> Invalid:
    return Invalid(
        f"{path}: another writer added this data file to the mirror a second time, so that readers see its rows twice; "
        "nothing was merged. Roll the table back to the snapshot before that."
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
            f"{file.file_path}: the mirror has equality deletes, which name no rows. "
            "Rewrite the table's data files with the engine that wrote them, then merge again."
        )
    if file.file_format is FileFormat.PUFFIN:
        target, span = referenced_data_file(file), content_span(file)
        if target is None or span is None:
            raise Corrupt(
                f"{file.file_path}: a deletion vector without the data file or place that it must name"
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
        raise Corrupt(f"{file.file_path}: has deletes that do not name a data file")
    return [(pair["values"], pair["counts"]) for pair in paths.value_counts().to_pylist()]
