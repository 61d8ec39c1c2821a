"""Lists the files that a mirror's metadata references, without the product's maintenance code."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table

from spark_job.index.root import read_root


def referenced_files(table: Table) -> set[Path]:
    """Return metadata files, manifest lists, manifests, live data and delete files, index roots and segments."""
    metadata = table.metadata
    found = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    for snapshot in metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in found:
                continue
            found.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            found.update(
                entry.data_file.file_path for entry in entries if entry.status != ManifestEntryStatus.DELETED
            )
        root = (
            snapshot.summary.additional_properties.get("icemirror.index-root") if snapshot.summary else None
        )
        if root:
            found.add(root)
            found.update(segment.path for segment in read_root(table.io, root).segments)
    return {Path(path.removeprefix("file://")) for path in found}


def stored_files(warehouse: Path, name: str = "world") -> set[Path]:
    """Return all files of a mirror and of its index in a local warehouse."""
    files = {path for path in warehouse.rglob("*") if path.is_file()}
    return {path for path in files if {name, "_icemirror_index"}.intersection(path.parts)}
