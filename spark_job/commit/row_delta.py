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

from icemirror.errors import REBUILD_ADVICE, CommitUnknown, Conflict, Corrupt, Invalid, UnverifiedConflict
from spark_job.commit.choose_manifests import (
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
    next_row_id,
    write_manifest_list,
    write_merged_manifest,
)
from spark_job.pyiceberg_private.refused_updates import is_refused_update
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


@dataclass(frozen=True)
class RowDelta:
    """A snapshot to commit. `snapshot_id` identifies this attempt in any response of the catalog.

    - `replaced_deletes` leave the table because `delete_files` replace them or their data files are removed
    - `removed_data_files` leave the table
    - `expired_snapshot_ids` are removed by the same commit
    - `schema` becomes the current one
    - `only_moves_rows`: the added data files contain the same rows as the removed ones
    - `metadata_paths`: the commit appends the paths of new metadata files, so that the caller can discard them
    """

    table: Table
    head: Snapshot | None
    snapshot_id: int
    data_files: Sequence[DataFile]
    delete_files: Sequence[DataFile]
    summary: Mapping[str, str]
    properties: Mapping[str, str]
    replaced_deletes: Sequence[LiveDelete] = ()
    removed_data_files: Sequence[LiveFile] = ()
    expired_snapshot_ids: Sequence[int] = ()
    schema: Schema | None = None
    only_moves_rows: bool = False
    metadata_paths: list[str] = field(default_factory=list)

    def commit(self) -> TableMetadata:
        """Commit, and return the metadata after it.

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
            error_class = Conflict if self._another_commit_won(current) else UnverifiedConflict
            raise error_class(f"another writer committed first: {error_text(error)}") from error
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
            and not self._another_commit_won(current)
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
        is_same_table = current.table_uuid == self.table.metadata.table_uuid
        return is_same_table and current.next_sequence_number() > self._sequence_number

    def _another_commit_won(self, current: TableMetadata) -> bool:
        """Return whether another commit certainly came first.

        A stale response, which may hide that this attempt succeeded, does not count.
        """
        read_metadata = self.table.metadata
        if current.table_uuid != read_metadata.table_uuid:
            return True
        if self._has_later_commits(current):
            return any(snapshot.sequence_number == self._sequence_number for snapshot in current.snapshots)
        # A rollback extends the log of the main branch without a new sequence number. Then the requirement of
        # this attempt fails.
        read_log = read_metadata.snapshot_log
        has_longer_log = len(current.snapshot_log) > len(read_log)
        return has_longer_log and current.snapshot_log[: len(read_log)] == read_log

    def _prepare(self) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
        metadata = self.table.metadata
        if metadata.format_version >= 3:
            enable_v3_metadata()
        parent_id = self.head.snapshot_id if self.head else None
        sequence_number = self._sequence_number
        first_row_id = next_row_id(metadata)
        path = self._new_metadata_path(f"snap-{self.snapshot_id}-0-{uuid.uuid4()}.avro")
        output = self.table.io.new_output(path)
        new_list = NewManifestList(
            output, self.snapshot_id, parent_id, sequence_number, self._codec, first_row_id
        )
        manifests, summary = self._write_contents()
        end_row_id = write_manifest_list(new_list, manifests)
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
                "added-rows": None
                if end_row_id is None or first_row_id is None
                else end_row_id - first_row_id,
            }
        )
        main_branch = {
            **self._branch_retention(),
            "ref-name": MAIN_BRANCH,
            "snapshot-id": self.snapshot_id,
            "type": SnapshotRefType.BRANCH,
        }
        updates: tuple[TableUpdate, ...] = (
            *self._schema_updates(),
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate(main_branch),
            SetPropertiesUpdate(updates=dict(self.properties)),
            # One update each: older servers of Iceberg Java refuse several snapshots in one.
            *(
                RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [snapshot_id]})
                for snapshot_id in self.expired_snapshot_ids
            ),
        )
        requirements: tuple[TableRequirement, ...] = (
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": parent_id}),
            *self._schema_requirements(),
        )
        return updates, requirements

    def _schema_requirements(self) -> tuple[TableRequirement, ...]:
        """Require the schema that was read: other writers may have assigned the new schema and field ids meanwhile."""
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
        add_schema = AddSchemaUpdate.model_validate({"schema": self.schema})
        return add_schema, SetCurrentSchemaUpdate.model_validate({"schema-id": -1})

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

    def _new_metadata_path(self, name: str) -> str:
        """Return the path of a new metadata file, and append it to `metadata_paths`."""
        metadata = self.table.metadata
        path = file_locations(metadata.location, metadata.properties).new_metadata_location(name)
        self.metadata_paths.append(path)
        return path

    def _new_manifest(self, content: ManifestContent, spec_id: int) -> NewManifest:
        metadata = self.table.metadata
        output = self.table.io.new_output(self._new_metadata_path(f"{uuid.uuid4()}.avro"))
        spec = metadata.specs()[spec_id]
        schema = self.schema or metadata.schema()
        return NewManifest(
            content, spec, schema, output, self.snapshot_id, self._codec, metadata.format_version
        )

    def _write_contents(self) -> tuple[list[ManifestFile], Summary]:
        """Write the new manifests; return the manifests of the snapshot, and its summary. `Swap` overrides this."""
        return self._write_manifests(), self._summary()

    def _write_manifests(self) -> list[ManifestFile]:
        """Write the new manifests; return them, followed by the existing ones that remain, in their order.

        Added files go into a manifest that is rewritten anyway, if it has room for them.
        """
        existing = load_manifests(self.table.io, self.head) if self.head else ()
        live = [
            manifest for manifest in existing if manifest.has_added_files() or manifest.has_existing_files()
        ]
        changed = {delete.manifest for delete in self.replaced_deletes} | {
            file.manifest for file in self.removed_data_files
        }
        rewritten = choose_rewritten_manifests(live, changed, self.table.metadata.properties)
        added = self._added_by_kind()
        new_manifests: list[ManifestFile] = []
        for kind in dict.fromkeys([*added, *rewritten]):
            groups, files = rewritten.get(kind, []), added.get(kind, [])
            free_entries = max_entries(kind[0]) - len(files)
            target = next((group for group in groups if sum(map(live_entries, group)) <= free_entries), None)
            if files and target is None:
                new_manifests.append(self._write_manifest(kind, (), files))
            new_manifests.extend(
                self._write_manifest(kind, group, files if group is target else ()) for group in groups
            )
        self._check_removed(new_manifests)
        rewritten_paths = {
            manifest.manifest_path for groups in rewritten.values() for group in groups for manifest in group
        }
        return new_manifests + [
            manifest for manifest in live if manifest.manifest_path not in rewritten_paths
        ]

    def _added_by_kind(self) -> dict[ManifestKind, list[DataFile]]:
        added: dict[ManifestKind, list[DataFile]] = defaultdict(list)
        for content, files in (
            (ManifestContent.DATA, self.data_files),
            (ManifestContent.DELETES, self.delete_files),
        ):
            for file in files:
                added[content, file.spec_id].append(file)
        return added

    def _write_manifest(
        self, kind: ManifestKind, manifests: Sequence[ManifestFile], added: Sequence[DataFile]
    ) -> ManifestFile:
        removed = {delete.key for delete in self.replaced_deletes} | {
            (file.path, None) for file in self.removed_data_files
        }
        return write_merged_manifest(self._new_manifest(*kind), self.table.io, manifests, removed, added)

    def _check_removed(self, manifests: list[ManifestFile]) -> None:
        """Raise `Corrupt` unless each removed file was listed once: a data file must not have two deletion vectors."""
        expected = len(self.replaced_deletes) + len(self.removed_data_files)
        listed = sum(manifest.deleted_files_count or 0 for manifest in manifests)
        if listed != expected:
            raise Corrupt(
                f"{'.'.join(self.table.name())}: the commit removes {expected} files, but the manifests list {listed} "
                f"of them; nothing was committed. To continue, {REBUILD_ADVICE}."
            )

    def _summary(self) -> Summary:
        added = (*self.data_files, *self.delete_files)
        counts = count_files(added, self.replaced_deletes, self.removed_data_files)
        operation = Operation.OVERWRITE if self.delete_files or self.removed_data_files else Operation.APPEND
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
    last_ms = max((metadata.last_updated_ms, *(entry.timestamp_ms for entry in metadata.snapshot_log[-1:])))
    return max(int(time.time() * 1000), last_ms + 1)
