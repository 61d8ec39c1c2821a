"""The files that a merge may read, by class."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table

from spark_job.iceberg.property_names import PROPERTY_INDEX_ROOT
from spark_job.index.root import read_root
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from tests.lab.manifests import list_manifests


class FileClass(StrEnum):
    """The class of a file."""

    ROOT = "index root"
    SEGMENT = "index segment"
    VECTORS = "deletion vectors"
    POSITIONS = "position deletes"
    DATA = "data file"
    CHANGELOG = "changelog file"
    HISTORY = "merged changelog file"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"


def targets_of(
    mirror: Table, changelog: Table, waiting: Collection[str], files: Iterable[str]
) -> dict[FileClass, list[str]]:
    """Return the paths of each class, in the order of the files."""
    root_path = mirror.metadata.properties[PROPERTY_INDEX_ROOT]
    found: dict[FileClass, set[str]] = {kind: set() for kind in FileClass}
    found[FileClass.ROOT].add(root_path)
    found[FileClass.SEGMENT].update(segment.path for segment in read_root(mirror.io, root_path).segments)
    for file_class, path in (*_files_of(mirror), *_files_of(changelog)):
        found[file_class].add(path)
    changes = {path for path in found[FileClass.DATA] if "world_changelog" in path}
    found[FileClass.CHANGELOG] = set(waiting)
    found[FileClass.HISTORY] = changes - set(waiting)
    found[FileClass.DATA] -= changes
    return {kind: [path for path in files if path in paths] for kind, paths in found.items() if paths}


def _files_of(table: Table) -> list[tuple[FileClass, str]]:
    head = table.current_snapshot()
    assert head is not None
    found = [(FileClass.MANIFEST_LIST, head.manifest_list)]
    for manifest in list_manifests(table.io, head.manifest_list):
        found.append((FileClass.MANIFEST, manifest.manifest_path))
        for entry in read_manifest_entries(table.io, manifest):
            file = entry.data_file
            if file.content is DataFileContent.DATA:
                found.append((FileClass.DATA, file.file_path))
            elif file.file_format is FileFormat.PUFFIN:
                found.append((FileClass.VECTORS, file.file_path))
            else:
                found.append((FileClass.POSITIONS, file.file_path))
    return found
