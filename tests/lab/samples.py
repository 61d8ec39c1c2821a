"""Small tables, custom snapshots, and a catalog with configurable failures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from pyiceberg.types import LongType, NestedField, StringType

from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.live_files import live_files
from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
    NewManifestList,
    write_added_manifest,
    write_manifest_list,
)
from spark_job.write.data_files import write_rows
from spark_job.write.deletes import write_deletes

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType(), required=False)
)


class UnsteadyCatalog(SqlCatalog):
    """A catalog that fails as a test configures it."""

    before_commit: Callable[[], object] | None = None
    refusal: Exception | None = None  # raised instead of committing
    answer: Exception | None = None  # raised after a commit that landed
    blindness: Exception | None = None  # raised by load_table after a commit attempt
    stale: Table | None = None  # returned by load_table after a commit attempt
    commits = 0
    _blind = False

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, unless a failure is configured."""
        self.commits += 1
        if act := self.before_commit:
            self.before_commit = None
            act()
        try:
            if self.refusal:
                raise self.refusal
            response = super().commit_table(table, requirements, updates)
            if self.answer:
                raise self.answer
        finally:
            self._blind = True
        return response

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load the table, unless loading is configured to fail."""
        if self._blind and self.blindness:
            raise self.blindness
        if self._blind and self.stale:
            return self.stale
        return super().load_table(identifier)

    def recover(self) -> None:
        """Remove all configured failures."""
        self.before_commit = self.refusal = self.answer = self.blindness = self.stale = None
        self.commits = 0


def data_files(table: Table, *ids: int) -> list[DataFile]:
    """Write an uncommitted data file with these ids; the names are `n<id>`."""
    columns = [pa.array(ids, pa.int64()), pa.array([f"n{number}" for number in ids])]
    rows = pa.Table.from_arrays(columns, names=["id", "name"]).cast(schema_to_pyarrow(table.schema()))
    return list(write_rows(table.io, table.metadata, rows, []).files)


def delete_files(table: Table, positions: Mapping[str, Sequence[int]]) -> list[DataFile]:
    """Write uncommitted position deletes for data files of the head."""
    deleted = {path: np.array(rows, np.int64) for path, rows in positions.items()}
    return write_deletes(
        table.io, table.metadata, deleted, live_files(table.io, table.current_snapshot()), []
    )


def make_delta(
    table: Table,
    data: Sequence[DataFile] = (),
    deletes: Sequence[DataFile] = (),
    summary: dict[str, str] | None = None,
    properties: dict[str, str] | None = None,
) -> RowDelta:
    """Build a commit on the head of the table as loaded."""
    return RowDelta(
        table,
        table.current_snapshot(),
        table.metadata.new_snapshot_id(),
        data,
        deletes,
        summary or {},
        properties or {"p": "1"},
    )


def commit_ids(table: Table, *ids: int) -> str:
    """Commit a file with these ids. Return its path."""
    table.refresh()
    (file,) = data_files(table, *ids)
    make_delta(table, [file]).commit()
    table.refresh()
    return file.file_path


def ids_of(table: Table) -> list[int]:
    """Return the ids as PyIceberg reads them."""
    ids: list[int] = table.refresh().scan().to_arrow()["id"].to_pylist()
    return sorted(ids)


def manifest_of(
    table: Table,
    snapshot_id: int,
    files: Sequence[DataFile],
    content: ManifestContent = ManifestContent.DATA,
) -> ManifestFile:
    """Write a manifest that adds these files in this snapshot."""
    output = table.io.new_output(f"{table.location()}/metadata/{uuid4()}.avro")
    metadata = table.metadata
    new = NewManifest(content, metadata.spec(), metadata.schema(), output, snapshot_id, "deflate")
    return write_added_manifest(new, list(files))


def commit_snapshot(
    table: Table, operation: str, manifests: Sequence[ManifestFile], snapshot_id: int
) -> Snapshot:
    """Commit a snapshot with this operation and exactly these manifests, like another engine."""
    table.refresh()
    head = table.current_snapshot()
    parent = head.snapshot_id if head else None
    sequence_number = table.metadata.next_sequence_number()
    path = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    output = table.io.new_output(path)
    write_manifest_list(
        NewManifestList(output, snapshot_id, parent, sequence_number, "deflate"), list(manifests)
    )
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent,
            "sequence-number": sequence_number,
            "manifest-list": path,
            "summary": {"operation": operation},
            "schema-id": 0,
        }
    )
    to_main = {"ref-name": "main", "snapshot-id": snapshot_id, "type": "branch"}
    updates = (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(to_main))
    table.catalog.commit_table(table, (), updates)
    table.refresh()
    return snapshot


def expire_like_java(table: Table, *snapshot_ids: int) -> None:
    """Expire snapshots like Iceberg Java: the child keeps its parent id (PyIceberg removes it)."""
    path = Path(table.refresh().metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    for key in ("snapshots", "snapshot-log"):
        metadata[key] = [entry for entry in metadata[key] if entry["snapshot-id"] not in snapshot_ids]
    path.write_text(json.dumps(metadata))
    table.refresh()
