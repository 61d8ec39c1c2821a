"""Commits of any writer, built from manifests without the commit code of the product or of PyIceberg."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from icemirror.tables.cursor import Cursor, CursorSource
from spark_job.iceberg.property_names import PROPERTY_CURSOR
from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
    NewManifestList,
    _Writer,
    enable_v3_metadata,
    next_row_id,
    read_manifest_entries,
    write_added_manifest,
    write_manifest_list,
)
from spark_job.pyiceberg_private.v3_fields import delete_key, manifest_first_row_id
from tests.lab.manifests import list_manifests
from tests.sim.engine.memory_io import MemoryIO

_entries: dict[tuple[str, int | None], list[ManifestEntry]] = {}
_lists: dict[str, list[ManifestFile]] = {}


def clear_caches() -> None:
    """Clear the caches for another seed."""
    _entries.clear()
    _lists.clear()


def manifests_of(io: MemoryIO, snapshot: Snapshot | None) -> list[ManifestFile]:
    """Return the manifests of a snapshot."""
    if snapshot is None:
        return []
    if snapshot.manifest_list not in _lists:
        _lists[snapshot.manifest_list] = list_manifests(io, snapshot.manifest_list)
    return list(_lists[snapshot.manifest_list])


def entries_of(io: MemoryIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Return the live entries of a manifest."""
    key = manifest.manifest_path, manifest_first_row_id(manifest)
    if key not in _entries:
        _entries[key] = read_manifest_entries(io, manifest)
    return _entries[key]


def write_parquet(table: Table, rows: pa.Table, partition: Record) -> DataFile:
    """Write a data file that no snapshot references yet."""
    io = table.io
    path = f"{table.metadata.location}/data/{uuid.uuid4()}.parquet"
    with io.new_output(path).create() as stream:
        pq.write_table(rows, stream, compression="none", use_dictionary=False)
    file = DataFile.from_args(
        _table_format_version=table.metadata.format_version,
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=rows.num_rows,
        file_size_in_bytes=len(io.new_input(path)),
    )
    file.spec_id = table.metadata.default_spec_id
    return file


def commit(
    table: Table,
    operation: str,
    data: Sequence[DataFile] = (),
    deletes: Sequence[DataFile] = (),
    removed: Any = frozenset(),
    *,
    first_id: int | None = None,
    summary: Mapping[str, str] | None = None,
) -> Snapshot:
    """Commit a snapshot on the head that adds these files and removes those of `removed` (path and offset)."""
    io, metadata, head = table.io, table.metadata, table.current_snapshot()
    assert isinstance(io, MemoryIO)
    if metadata.format_version >= 3:
        enable_v3_metadata()
    snapshot_id = first_id or metadata.new_snapshot_id()
    sequence_number = metadata.next_sequence_number()
    manifests: list[ManifestFile] = []

    def new(content: ManifestContent) -> NewManifest:
        output = io.new_output(f"{metadata.location}/metadata/{uuid.uuid4()}.avro")
        version = metadata.format_version
        return NewManifest(content, metadata.spec(), metadata.schema(), output, snapshot_id, "null", version)

    for content, files in ((ManifestContent.DATA, data), (ManifestContent.DELETES, deletes)):
        if files:
            manifests.append(write_added_manifest(new(content), list(files)))
    for manifest in manifests_of(io, head):
        entries = entries_of(io, manifest)
        if not any(delete_key(entry.data_file) in removed for entry in entries):
            manifests.append(manifest)
            continue
        with _Writer(new(manifest.content)) as writer:
            for entry in read_manifest_entries(io, manifest):
                if delete_key(entry.data_file) in removed:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
        manifests.append(writer.to_manifest_file())
    path = f"{metadata.location}/metadata/snap-{snapshot_id}.avro"
    parent = head.snapshot_id if head else None
    first_row = next_row_id(metadata)
    listed = NewManifestList(io.new_output(path), snapshot_id, parent, sequence_number, "null", first_row)
    after = write_manifest_list(listed, manifests)
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent,
            "sequence-number": sequence_number,
            "manifest-list": path,
            "summary": {"operation": operation, **(summary or {})},
            "schema-id": metadata.current_schema_id,
            "first-row-id": first_row,
            "added-rows": None if after is None or first_row is None else after - first_row,
        }
    )
    to_main = {"ref-name": "main", "snapshot-id": snapshot_id, "type": "branch"}
    table.catalog.commit_table(
        table,
        (AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": parent}),),
        (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(to_main)),
    )
    return snapshot


def merge_snapshots(metadata: TableMetadata) -> list[int]:
    """Return the snapshots of merges in the history of the head, newest first."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    at, merged = metadata.current_snapshot(), list[int]()
    while at is not None:
        if at.summary and PROPERTY_CURSOR in at.summary.additional_properties:
            merged.append(at.snapshot_id)
        at = by_id.get(at.parent_snapshot_id or 0)
    return merged


def cursors(table: Table) -> dict[int, CursorSource]:
    """Return the cursor of each snapshot of a merge."""
    return cursors_of(table.metadata)


def cursors_of(metadata: TableMetadata) -> dict[int, CursorSource]:
    """Return the cursor of each snapshot of a merge."""
    found = {
        snapshot.snapshot_id: Cursor.model_validate_json(
            snapshot.summary.additional_properties[PROPERTY_CURSOR]
        )
        for snapshot in metadata.snapshots
        if snapshot.summary and PROPERTY_CURSOR in snapshot.summary.additional_properties
    }
    return {snapshot_id: cursor.source for snapshot_id, cursor in found.items() if cursor.sources}


def without(metadata: TableMetadata, ids: Sequence[int]) -> TableMetadata:
    """Return the table after these snapshots expired, as in Iceberg Java: others keep them as parents."""
    kept = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in ids]
    log = [entry for entry in metadata.snapshot_log if entry.snapshot_id not in ids]
    return metadata.model_copy(update={"snapshots": kept, "snapshot_log": log})


def upgraded(metadata: TableMetadata) -> TableMetadata:
    """Return a table of format v2 upgraded to v3."""
    enable_v3_metadata()
    document = metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    return TableMetadataUtil.parse_obj(document | {"format-version": 3, "next-row-id": 0})
