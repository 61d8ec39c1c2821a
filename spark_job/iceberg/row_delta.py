"""Commit: rows, deletes, index and cursor as one snapshot, on exactly the head that was located on."""

from __future__ import annotations

import sys
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

from icemirror.errors import REBUILD, CommitUnknown, Conflict, Contested, Corrupt, Invalid
from icemirror.mirror_properties import MERGE_FROM_MANIFESTS, TARGET_MANIFEST_BYTES
from spark_job.iceberg.file_locations import file_locations
from spark_job.iceberg.forbidden import is_forbidden, own_words
from spark_job.iceberg.manifest_tiers import bundle, choose_due, live_entries
from spark_job.iceberg.manifests import known_manifests
from spark_job.iceberg.seams import (
    NewList,
    NewManifest,
    allow_v3_metadata,
    next_row_id,
    refused_updates,
    write_list,
    write_merged,
)
from spark_job.iceberg.summary import count_changes
from spark_job.iceberg.view import LiveDelete, LiveFile
from spark_job.iceberg.write_properties import read_avro_codec, read_number

_MOST_DELETES = 64  # in a manifest that is written anew
_Kind = tuple[ManifestContent, int]  # with the partition spec: what a manifest has one of
# The catalog says that it did not begin. After any other error it may still be at it.
_REFUSALS = (
    AuthorizationExpiredError,
    BadRequestError,
    ForbiddenError,
    Invalid,  # ours: it was not asked
    NoSuchTableError,
    OAuthError,
    TooManyRequestsError,
    UnauthorizedError,
)


@dataclass
class RowDelta:
    """A snapshot in the making. `snapshot_id` identifies this attempt, whatever the catalog answers.

    `replaced` are deletes of the head that `delete_files` take the place of, or whose data files go: `removed`.
    `expired` are snapshots that the same commit removes. `schema` becomes the current one. `same_rows`: those of the
    data files that come are those of the data files that go.
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
    same_rows: bool = False
    written: list[str] = field(default_factory=list)

    def commit(self) -> TableMetadata:
        """Commits, or raises `Conflict` (it did not happen) or `CommitUnknown` (it may have); the table after it."""
        updates, requirements = self._prepare()
        try:
            return self.table.catalog.commit_table(self.table, requirements, updates).metadata
        except CommitFailedException as error:
            # A transport's own retry of a commit that landed is refused, too.
            seen = self._look(error)
            if self._is_in(seen):
                return seen
            kind = Conflict if self._was_overtaken(seen) else Contested
            raise kind(f"the mirror moved while this merge was under way: {own_words(error)}") from error
        except _REFUSALS as error:
            seen = self._look(error)
            if self._is_in(seen):
                return seen
            raise
        except Exception as error:
            if refused_updates(error):  # by numbers that others used, on another branch say: nothing was sent
                raise Conflict(
                    f"the mirror moved while this merge was under way: {own_words(error)}"
                ) from error
            seen = self._look(error)
            if self._is_in(seen):
                return seen
            if is_forbidden(error):  # it could not begin
                raise
            raise CommitUnknown(
                f"snapshot {self.snapshot_id} is not there, but may still be committed: {own_words(error)}"
            ) from error

    def _look(self, error: Exception) -> TableMetadata:
        """After an error: the table as it is shown."""
        try:
            seen = self.table.catalog.load_table(self.table.name()).metadata
        except Exception as unseen:
            raise self._unknown(error, own_words(unseen)) from error
        # Others went on from here: only the snapshot with this attempt's number tells whose it is. It may have expired,
        # and some catalogs (Nessie) show none but the newest.
        if not self._is_in(seen) and self._went_on(seen) and not self._was_overtaken(seen):
            raise self._unknown(error, f"snapshot number {self._number} of the table is not shown any more")
        return seen

    def _unknown(self, error: Exception, why: str) -> CommitUnknown:
        return CommitUnknown(
            f"snapshot {self.snapshot_id} may have been committed: {own_words(error)}; looking for it failed: {why}"
        )

    @property
    def _number(self) -> int:
        """The sequence number of this attempt."""
        return self.table.metadata.next_sequence_number()

    def _is_in(self, seen: TableMetadata) -> bool:
        return seen.snapshot_by_id(self.snapshot_id) is not None

    def _went_on(self, seen: TableMetadata) -> bool:
        same_table = seen.table_uuid == self.table.metadata.table_uuid
        return same_table and seen.next_sequence_number() > self._number

    def _was_overtaken(self, seen: TableMetadata) -> bool:
        """Whether another was quicker for certain: a stale answer, which may hide that this one landed, shows none."""
        before = self.table.metadata
        if seen.table_uuid != before.table_uuid:
            return True
        if self._went_on(seen):
            return any(one.sequence_number == self._number for one in seen.snapshots)
        # Rolled back: the log of the main branch goes on without a new number, which breaks the fence of this attempt.
        known = before.snapshot_log
        return len(seen.snapshot_log) > len(known) and seen.snapshot_log[: len(known)] == known

    def _prepare(self) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
        metadata = self.table.metadata
        if metadata.format_version >= 3:
            allow_v3_metadata()
        parent_id = self.head.snapshot_id if self.head else None
        sequence_number = metadata.next_sequence_number()
        first_row_id = next_row_id(metadata)
        path = self._metadata_path(f"snap-{self.snapshot_id}-0-{uuid.uuid4()}.avro")
        output = self.table.io.new_output(path)
        new = NewList(output, self.snapshot_id, parent_id, sequence_number, self._codec, first_row_id)
        manifests, summary = self._contents()
        after = write_list(new, manifests)
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": self.snapshot_id,
                "parent-snapshot-id": parent_id,
                "sequence-number": sequence_number,
                "timestamp-ms": next_time_ms(metadata),
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
            # One by one: older servers of Iceberg Java refuse several in one update.
            *(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [one]}) for one in self.expired),
        )
        fence = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": parent_id})
        return updates, (AssertTableUUID(uuid=metadata.table_uuid), fence, *self._schema_fences())

    def _schema_fences(self) -> tuple[TableRequirement, ...]:
        """Ids of schemas and fields are given on the table as it was read: nobody may have given them since."""
        if self.schema is None:
            return ()
        number = self.table.metadata.current_schema_id
        return (AssertCurrentSchemaId.model_validate({"current-schema-id": number}),)

    def _schema_updates(self) -> tuple[TableUpdate, ...]:
        if self.schema is None:
            return ()
        number = self.schema.schema_id
        if self.table.metadata.schema_by_id(number) is not None:
            return (SetCurrentSchemaUpdate.model_validate({"schema-id": number}),)
        added = AddSchemaUpdate.model_validate({"schema": self.schema})
        return added, SetCurrentSchemaUpdate.model_validate({"schema-id": -1})

    def _branch_retention(self) -> dict[str, int]:
        """What somebody set on the branch, which moving it would otherwise reset."""
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
        """What the snapshot names, and what it tells of that."""
        return self._manifests(), self._summarise()

    def _manifests(self) -> list[ManifestFile]:
        """Those that are written now, then what is kept of those that were there, in their order.

        What is added goes to a manifest that is written anew in any case, where it has room for it.
        """
        existing = known_manifests(self.table.io, self.head) if self.head else ()
        live = [one for one in existing if one.has_added_files() or one.has_existing_files()]
        anew, added = self._choose_anew(live), self._added_by_kind()
        written: list[ManifestFile] = []
        for kind in dict.fromkeys([*added, *anew]):
            bundles, files = anew.get(kind, []), added.get(kind, [])
            room = _most(kind[0]) - len(files)
            into = next((one for one in bundles if sum(map(live_entries, one)) <= room), None)
            if files and into is None:
                written.append(self._write(kind, (), files))
            written.extend(self._write(kind, one, files if one is into else ()) for one in bundles)
        self._check_gone(written)
        passed = {one.manifest_path for bundles in anew.values() for together in bundles for one in together}
        return written + [one for one in live if one.manifest_path not in passed]

    def _added_by_kind(self) -> dict[_Kind, list[DataFile]]:
        added: dict[_Kind, list[DataFile]] = defaultdict(list)
        for content, files in (
            (ManifestContent.DATA, self.data_files),
            (ManifestContent.DELETES, self.delete_files),
        ):
            for file in files:
                added[content, file.spec_id].append(file)
        return added

    def _choose_anew(self, manifests: list[ManifestFile]) -> dict[_Kind, list[list[ManifestFile]]]:
        """Small manifests of one kind are merged where there are many, so that planning a read stays flat.

        Those that name what is replaced or removed are written anew in any case. That happens to deletes all the time,
        so their manifests are kept short.
        """
        metadata = self.table.metadata
        least = read_number(metadata.properties, MERGE_FROM_MANIFESTS)
        target = read_number(metadata.properties, TARGET_MANIFEST_BYTES)
        touched = {delete.manifest for delete in self.replaced} | {file.manifest for file in self.removed}
        kinds: dict[_Kind, list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            kinds[manifest.content, manifest.partition_spec_id].append(manifest)
        anew: dict[_Kind, list[list[ManifestFile]]] = {}
        for kind, group in kinds.items():
            most = _most(kind[0])
            small = [one for one in group if one.manifest_length < target and live_entries(one) < most]
            due = choose_due(small, least)
            together = [one for one in small if one in due or one.manifest_path in touched]
            alone = [[one] for one in group if one.manifest_path in touched and one not in small]
            anew[kind] = [*bundle(together, most), *alone]
        return anew

    def _write(
        self, kind: _Kind, manifests: Sequence[ManifestFile], added: Sequence[DataFile]
    ) -> ManifestFile:
        gone = {delete.key for delete in self.replaced} | {(file.path, None) for file in self.removed}
        return write_merged(self._new_manifest(*kind), self.table.io, manifests, gone, added)

    def _check_gone(self, manifests: list[ManifestFile]) -> None:
        """Each was there once: a data file with two deletion vectors is one that no reader can read."""
        expected = len(self.replaced) + len(self.removed)
        found = sum(manifest.deleted_files_count or 0 for manifest in manifests)
        if found != expected:
            raise Corrupt(
                f"{'.'.join(self.table.name())}: {expected} files were to be taken out of the table, but the manifests "
                f"name {found} of them; nothing was committed. To go on, {REBUILD}."
            )

    def _summarise(self) -> Summary:
        added = (*self.data_files, *self.delete_files)
        counts = count_changes(added, self.replaced, self.removed)
        operation = Operation.OVERWRITE if self.delete_files or self.removed else Operation.APPEND
        previous = self.head.summary if self.head else None
        summary = update_snapshot_summaries(Summary(operation, **counts, **self.summary), previous)
        # PyIceberg itself does not count for a replacement.
        return Summary(Operation.REPLACE, **summary.additional_properties) if self.same_rows else summary


def _most(content: ManifestContent) -> int:
    """Entries of a manifest that is written anew."""
    return _MOST_DELETES if content is ManifestContent.DELETES else sys.maxsize


def next_time_ms(metadata: TableMetadata) -> int:
    """The time of the next snapshot: now, but after all that the table has seen, whatever the clocks of its writers.

    Iceberg Java does not read a table whose log goes back by more than a minute. The same time would not do: PyIceberg
    takes a `last-updated-ms` that does not change for one that nobody set, and puts its own clock's there.
    """
    seen = max((metadata.last_updated_ms, *(entry.timestamp_ms for entry in metadata.snapshot_log[-1:])))
    return max(int(time.time() * 1000), seen + 1)
