"""The live data files of a mirror's snapshot: rows, deleted rows, partition."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from icemirror.errors import Invalid
from spark_job.iceberg.seams import list_manifests
from spark_job.immutable import ReadOnce

# Reserved field ids of the spec, "Position Delete Files".
DELETED_PATH_ID = 2147483546
DELETED_POS_ID = 2147483545


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file that the snapshot reads."""

    path: str
    rows: int
    deleted: int
    spec_id: int
    partition: Record


@dataclass(frozen=True)
class _Contents:
    data: tuple[LiveFile, ...]
    deleted: tuple[tuple[str, int], ...]


_contents: ReadOnce[_Contents] = ReadOnce(4096)


def live_files(io: FileIO, snapshot: Snapshot | None) -> dict[str, LiveFile]:
    """The data files of a snapshot by path."""
    if snapshot is None:
        return {}
    files: dict[str, LiveFile] = {}
    deleted: Counter[str] = Counter()
    for manifest in list_manifests(io, snapshot.manifest_list):
        contents = _contents.get(manifest.manifest_path, partial(_read_manifest, io, manifest))
        files.update((file.path, file) for file in contents.data)
        for path, count in contents.deleted:
            deleted[path] += count
    for path, count in deleted.items():
        if path in files:  # a delete may outlive its data file
            files[path] = replace(files[path], deleted=count)
    return files


def _read_manifest(io: FileIO, manifest: ManifestFile) -> _Contents:
    entries = [entry.data_file for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)]
    if manifest.content is ManifestContent.DATA:
        data = [
            LiveFile(file.file_path, file.record_count, 0, file.spec_id, file.partition) for file in entries
        ]
        return _Contents(tuple(data), ())
    deleted: list[tuple[str, int]] = []
    for file in entries:
        deleted.extend(_count_deletes(io, file))
    return _Contents((), tuple(deleted))


def _count_deletes(io: FileIO, file: DataFile) -> list[tuple[str, int]]:
    if file.content is not DataFileContent.POSITION_DELETES:
        raise Invalid(
            f"{file.file_path}: the mirror has equality deletes, which name no rows. "
            "Rewrite the table's data files with the engine that wrote them, then merge again."
        )
    lower = (file.lower_bounds or {}).get(DELETED_PATH_ID)
    upper = (file.upper_bounds or {}).get(DELETED_PATH_ID)
    if lower is not None and lower == upper:
        return [(lower.decode(), file.record_count)]
    with io.new_input(file.file_path).open() as stream:
        paths = pq.read_table(stream, columns=["file_path"])["file_path"]
    return [(pair["values"], pair["counts"]) for pair in paths.value_counts().to_pylist()]
