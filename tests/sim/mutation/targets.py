"""The files that a merge may read, by class."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum

from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table

from spark_job.iceberg.mirror import INDEX_ROOT
from spark_job.index.root import read_root
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from tests.manifests import list_manifests


class Class(StrEnum):
    """What a file is."""

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
) -> dict[Class, list[str]]:
    """The paths of each class, in the order of the files."""
    root_path = mirror.metadata.properties[INDEX_ROOT]
    found: dict[Class, set[str]] = {kind: set() for kind in Class}
    found[Class.ROOT].add(root_path)
    found[Class.SEGMENT].update(one.path for one in read_root(mirror.io, root_path).segments)
    for file_class, path in (*_files_of(mirror), *_files_of(changelog)):
        found[file_class].add(path)
    changes = {path for path in found[Class.DATA] if "world_changelog" in path}
    found[Class.CHANGELOG] = set(waiting)
    found[Class.HISTORY] = changes - set(waiting)
    found[Class.DATA] -= changes
    return {kind: [path for path in files if path in paths] for kind, paths in found.items() if paths}


def _files_of(table: Table) -> list[tuple[Class, str]]:
    head = table.current_snapshot()
    assert head is not None
    found = [(Class.MANIFEST_LIST, head.manifest_list)]
    for manifest in list_manifests(table.io, head.manifest_list):
        found.append((Class.MANIFEST, manifest.manifest_path))
        for entry in read_manifest_entries(table.io, manifest):
            file = entry.data_file
            if file.content is DataFileContent.DATA:
                found.append((Class.DATA, file.file_path))
            elif file.file_format is FileFormat.PUFFIN:
                found.append((Class.VECTORS, file.file_path))
            else:
                found.append((Class.POSITIONS, file.file_path))
    return found
