"""Commit data files, deletes and properties as one snapshot, on exactly the head that was read."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    OAuthError,
    TooManyRequestsError,
    UnauthorizedError,
)
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from icemirror.errors import REBUILD, CommitUnknown, Conflict, Corrupt, Invalid, UnverifiedConflict
from spark_job.commit.manifest_tiers import (
    ManifestKind,
    choose_rewritten_manifests,
    live_entries,
    max_entries,
)
from spark_job.commit.summary import count_files
from spark_job.iceberg.live_files import LiveDelete, LiveFile
from spark_job.iceberg.manifests import load_manifests
from spark_job.iceberg.write_properties import file_locations, read_avro_codec
from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
    NewManifestList,
    enable_v3_metadata,
    is_refused_update,
    next_row_id,
    write_manifest_list,
    write_merged_manifest,
)
from spark_job.storage.classify_errors import error_text, is_forbidden

# The catalog reports that it did not start the commit. After any other error it may still be committing.
_REFUSALS = (
    AuthorizationExpiredError,
    BadRequestError,
    ForbiddenError,
    Invalid,  # raised here, before the catalog was called
    NoSuchTableError,
    OAuthError,
    TooManyRequestsError,
    UnauthorizedError,
)


@dataclass
class RowDelta:
    """A snapshot to commit. `snapshot_id` identifies this attempt in any answer of the catalog.

    `removed` are data files that leave the table; `replaced` are deletes of the head that leave it, because
    `delete_files` replace them or their data files are removed. `expired` snapshots are removed by the same commit.
    `schema` becomes the current one. `only_moves_rows`: the added data files hold the same rows as the removed ones.
    `written` collects the paths of new metadata files.
    """

    table: Table
    head: Snapshot | None
    snapshot_id: int
    data_files: Sequence[DataFile]
    delete_files: Sequence[DataFile]
    summary: Mapping[str, str]
    properties: Mapping[str, str]
    replaced: Sequence[LiveDelete] = ()
    removed: Sequence[LiveFile] = ()
    expired: Sequence[int] = ()
    schema: Schema | None = None
    only_moves_rows: bool = False
    written: list[str] = field(default_factory=list)

    def commit(self) -> TableMetadata:
        """Commit and return the table after it.

        Raise `Conflict` if the commit did not happen, `CommitUnknown` if it may have.
        """
        updates, requirements = self._prepare()
        try:
            return self.table.catalog.commit_table(self.table, requirements, updates).metadata
        except CommitFailedException as error:
            # A retry by the HTTP client of a successful commit is refused too.
            current = self._load_after(error)
            if self._is_committed_in(current):
                return current
            kind = Conflict if self._lost_the_race(current) else UnverifiedConflict
            raise kind(f"another writer committed first: {error_text(error)}") from error
        except _REFUSALS as error:
            current = self._load_after(error)
            if self._is_committed_in(current):
                return current
            raise
        except Exception as error:
            # Another writer used the same numbers, for example on a branch; nothing was sent.
            if is_refused_update(error):
                raise Conflict(f"another writer committed first: {error_text(error)}") from error
            current = self._load_after(error)
            if self._is_committed_in(current):
                return current
            if is_forbidden(error):  # the commit could not start
                raise
            raise CommitUnknown(
                f"snapshot {self.snapshot_id} is not in the table, but may still be committed: {error_text(error)}"
            ) from error

    def _load_after(self, error: Exception) -> TableMetadata:
        """Load the table after an error; raise `CommitUnknown` if it does not show whether this attempt succeeded."""
        try:
            current = self.table.catalog.load_table(self.table.name()).metadata
        except Exception as unreadable:
            raise self._unknown(error, error_text(unreadable)) from error
        # The table moved on. Only the snapshot with this attempt's sequence number shows whose commit came next. It may
        # have expired, and some catalogs (Nessie) return only the newest snapshot.
        if (
            not self._is_committed_in(current)
            and self._has_later_commits(current)
            and not self._lost_the_race(current)
        ):
            raise self._unknown(
                error, f"the table no longer lists the snapshot with sequence number {self._sequence_number}"
            )
        return current

    def _unknown(self, error: Exception, why: str) -> CommitUnknown:
        return CommitUnknown(
            f"snapshot {self.snapshot_id} may have been committed: {error_text(error)}; checking failed: {why}"
        )

    @property
    def adds_files(self) -> bool:
        """Return whether the commit adds data or delete files."""
        return bool(self.data_files or self.delete_files)

    @property
    def _sequence_number(self) -> int:
        return self.table.metadata.next_sequence_number()

    def _is_committed_in(self, current: TableMetadata) -> bool:
        return current.snapshot_by_id(self.snapshot_id) is not None

    def _has_later_commits(self, current: TableMetadata) -> bool:
        same_table = current.table_uuid == self.table.metadata.table_uuid
        return same_table and current.next_sequence_number() > self._sequence_number

    def _lost_the_race(self, current: TableMetadata) -> bool:
        """Return whether another commit certainly came first.

        A stale response, which may hide that this attempt succeeded, does not count.
        """
        before = self.table.metadata
        if current.table_uuid != before.table_uuid:
            return True
        if self._has_later_commits(current):
            return any(snapshot.sequence_number == self._sequence_number for snapshot in current.snapshots)
        # A rollback extends the log of the main branch without a new sequence number, and breaks this attempt's fence.
        log = before.snapshot_log
        return len(current.snapshot_log) > len(log) and current.snapshot_log[: len(log)] == log

    def _prepare(self) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
        metadata = self.table.metadata
        if metadata.format_version >= 3:
            enable_v3_metadata()
        parent_id = self.head.snapshot_id if self.head else None
        sequence_number = self._sequence_number
        first_row_id = next_row_id(metadata)
        path = self._metadata_path(f"snap-{self.snapshot_id}-0-{uuid.uuid4()}.avro")
        output = self.table.io.new_output(path)
        new = NewManifestList(output, self.snapshot_id, parent_id, sequence_number, self._codec, first_row_id)
        manifests, summary = self._contents()
        after = write_manifest_list(new, manifests)
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": self.snapshot_id,
                "parent-snapshot-id": parent_id,
                "sequence-number": sequence_number,
                "timestamp-ms": next_timestamp_ms(metadata),
                "manifest-list": path,
                "summary": summary,
                "schema-id": self.schema.schema_id if self.schema else metadata.current_schema_id,
                "first-row-id": first_row_id,
                "added-rows": None if after is None or first_row_id is None else after - first_row_id,
            }
        )
        to_main = {
            **self._branch_retention(),
            "ref-name": MAIN_BRANCH,
            "snapshot-id": self.snapshot_id,
            "type": SnapshotRefType.BRANCH,
        }
        updates: tuple[TableUpdate, ...] = (
            *self._schema_updates(),
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate(to_main),
            SetPropertiesUpdate(updates=dict(self.properties)),
            # One update each: older servers of Iceberg Java refuse several snapshots in one.
            *(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [expired]}) for expired in self.expired),
        )
        fence = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": parent_id})
        return updates, (AssertTableUUID(uuid=metadata.table_uuid), fence, *self._schema_fences())

    def _schema_fences(self) -> tuple[TableRequirement, ...]:
        """Fence the schema: new schema and field ids are valid only if no other writer assigned them meanwhile."""
        if self.schema is None:
            return ()
        schema_id = self.table.metadata.current_schema_id
        return (AssertCurrentSchemaId.model_validate({"current-schema-id": schema_id}),)

    def _schema_updates(self) -> tuple[TableUpdate, ...]:
        if self.schema is None:
            return ()
        schema_id = self.schema.schema_id
        if self.table.metadata.schema_by_id(schema_id) is not None:
            return (SetCurrentSchemaUpdate.model_validate({"schema-id": schema_id}),)
        added = AddSchemaUpdate.model_validate({"schema": self.schema})
        return added, SetCurrentSchemaUpdate.model_validate({"schema-id": -1})

    def _branch_retention(self) -> dict[str, int]:
        """Return the retention set on the main branch, which moving the branch would otherwise reset."""
        main = self.table.metadata.refs.get(MAIN_BRANCH)
        return (
            main.model_dump(by_alias=True, exclude={"snapshot_id", "snapshot_ref_type"}, exclude_none=True)
            if main
            else {}
        )

    @property
    def _codec(self) -> AvroCompressionCodec:
        return read_avro_codec(self.table.metadata.properties)

    def _metadata_path(self, name: str) -> str:
        metadata = self.table.metadata
        path = file_locations(metadata.location, metadata.properties).new_metadata_location(name)
        self.written.append(path)
        return path

    def _new_manifest(self, content: ManifestContent, spec_id: int) -> NewManifest:
        metadata = self.table.metadata
        output = self.table.io.new_output(self._metadata_path(f"{uuid.uuid4()}.avro"))
        spec = metadata.specs()[spec_id]
        schema = self.schema or metadata.schema()
        return NewManifest(
            content, spec, schema, output, self.snapshot_id, self._codec, metadata.format_version
        )

    def _contents(self) -> tuple[list[ManifestFile], Summary]:
        """Return the manifests of the snapshot, and its summary."""
        return self._manifests(), self._summary()

    def _manifests(self) -> list[ManifestFile]:
        """Write the new manifests; return them, followed by the existing ones that stay, in their order.

        Added files go into a manifest that is rewritten anyway, if it has room for them.
        """
        existing = load_manifests(self.table.io, self.head) if self.head else ()
        live = [
            manifest for manifest in existing if manifest.has_added_files() or manifest.has_existing_files()
        ]
        changed = {delete.manifest for delete in self.replaced} | {file.manifest for file in self.removed}
        rewritten = choose_rewritten_manifests(live, changed, self.table.metadata.properties)
        added = self._added_by_kind()
        written: list[ManifestFile] = []
        for kind in dict.fromkeys([*added, *rewritten]):
            groups, files = rewritten.get(kind, []), added.get(kind, [])
            room = max_entries(kind[0]) - len(files)
            target = next((group for group in groups if sum(map(live_entries, group)) <= room), None)
            if files and target is None:
                written.append(self._write(kind, (), files))
            written.extend(self._write(kind, group, files if group is target else ()) for group in groups)
        self._check_removed(written)
        replaced = {
            manifest.manifest_path for groups in rewritten.values() for group in groups for manifest in group
        }
        return written + [manifest for manifest in live if manifest.manifest_path not in replaced]

    def _added_by_kind(self) -> dict[ManifestKind, list[DataFile]]:
        added: dict[ManifestKind, list[DataFile]] = defaultdict(list)
        for content, files in (
            (ManifestContent.DATA, self.data_files),
            (ManifestContent.DELETES, self.delete_files),
        ):
            for file in files:
                added[content, file.spec_id].append(file)
        return added

    def _write(
        self, kind: ManifestKind, manifests: Sequence[ManifestFile], added: Sequence[DataFile]
    ) -> ManifestFile:
        removed = {delete.key for delete in self.replaced} | {(file.path, None) for file in self.removed}
        return write_merged_manifest(self._new_manifest(*kind), self.table.io, manifests, removed, added)

    def _check_removed(self, manifests: list[ManifestFile]) -> None:
        """Check that each removed file was listed once: readers fail on a data file with two deletion vectors."""
        expected = len(self.replaced) + len(self.removed)
        found = sum(manifest.deleted_files_count or 0 for manifest in manifests)
        if found != expected:
            raise Corrupt(
                f"{'.'.join(self.table.name())}: the commit removes {expected} files, but the manifests list {found} "
                f"of them; nothing was committed. To continue, {REBUILD}."
            )

    def _summary(self) -> Summary:
        added = (*self.data_files, *self.delete_files)
        counts = count_files(added, self.replaced, self.removed)
        operation = Operation.OVERWRITE if self.delete_files or self.removed else Operation.APPEND
        previous = self.head.summary if self.head else None
        summary = update_snapshot_summaries(Summary(operation, **counts, **self.summary), previous)
        # PyIceberg computes no counts for a replace snapshot.
        return (
            Summary(Operation.REPLACE, **summary.additional_properties) if self.only_moves_rows else summary
        )


def next_timestamp_ms(metadata: TableMetadata) -> int:
    """Return the time of the next snapshot: now, but later than all times in the table.

    Iceberg Java refuses a table whose log goes back by more than a minute. An equal time does not work either:
    PyIceberg takes an unchanged `last-updated-ms` as unset, and replaces it by its own clock.
    """
    last = max((metadata.last_updated_ms, *(entry.timestamp_ms for entry in metadata.snapshot_log[-1:])))
    return max(int(time.time() * 1000), last + 1)
