"""Reads manifest lists with the product's reader."""

from __future__ import annotations

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

from spark_job.pyiceberg_private.manifest_files import decode_manifest_list


def list_manifests(io: FileIO, manifest_list: str) -> list[ManifestFile]:
    return decode_manifest_list(io, manifest_list).records


def manifests(table: Table) -> list[ManifestFile]:
    head = table.refresh().current_snapshot()
    return list_manifests(table.io, head.manifest_list) if head else []


def sequence_numbers(table: Table) -> dict[str, tuple[int | None, int | None, int | None]]:
    """Return path → snapshot and sequence numbers of its entry."""
    return {
        entry.data_file.file_path: (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
        for manifest in manifests(table)
        for entry in manifest.fetch_manifest_entry(table.io)
    }
