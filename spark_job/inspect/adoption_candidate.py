"""Checks a table that may become the mirror by its metadata, and finds how much of the changelog it already holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from icemirror.tables.cursor import Cursor, CursorSource
from spark_job.changelog.history import ChangelogFile, added_files, whole_history
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import find_truncation
from spark_job.columns.added_columns import find_deleted_flag
from spark_job.columns.field_map import FieldMap, schema_changes
from spark_job.iceberg.catalogs import Catalogs
from spark_job.iceberg.lineage_columns import refuse_reserved_names
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.manifests import load_manifests
from spark_job.iceberg.merged_schema import assign_schema_id
from spark_job.iceberg.mirror import SOURCE
from spark_job.plan.key_change import require_key
from spark_job.plan.match_names import match_by_name, with_identifier_fields
from spark_job.plan.row_columns import row_schema, row_shape
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from spark_job.write.live_row_counts import recount_deleted_rows


@dataclass(frozen=True)
class AdoptionCandidate:
    """A table that passed the checks which need no rows. `schema`: its new schema; None if it stays.

    `metadata_columns`: field ids of icemirror's columns, by role.
    """

    table: Table
    shape: ChangelogShape
    field_map: FieldMap
    schema: Schema | None
    live: Mapping[str, LiveFile]
    cursor: Cursor
    history: tuple[ChangelogFile, ...]
    changelog: Table
    metadata_columns: Mapping[str, int]

    @property
    def live_rows(self) -> int:
        """The rows that a reader sees."""
        return sum(file.rows - file.deleted for file in self.live.values())


def examine_candidate(catalogs: Catalogs, table: TableSettings, merged_up_to: str) -> AdoptionCandidate:
    """Return the candidate; raise if its metadata rules it out as a mirror."""
    require_key(table, "so its rows cannot be matched with events. Let a merge create it.")
    found = catalogs.load_mirror(table)
    if found is None:
        raise Invalid(f"{table.name}: the table does not exist. `icemirror merge` creates the mirror.")
    if SOURCE in found.metadata.properties:
        raise Invalid(
            f"{table.name}: the table is already the mirror of {found.metadata.properties[SOURCE].split()[0]}; "
            "nothing to do."
        )
    changelog = catalogs.load_changelog(table)
    if found.metadata.table_uuid == changelog.metadata.table_uuid:
        raise Invalid(f"{table.name}: the table is the changelog itself. Set mirror_table to another name.")
    _require_format(table.name, found)
    shape = row_shape(table, changelog, None).with_mirror_salt(found.metadata.table_uuid)
    row = row_schema(table, changelog.schema(), shape.row_ids)
    metadata_columns = find_deleted_flag(table, found.schema())
    changelog_columns = Schema(
        *(field for field in found.schema().fields if field.field_id not in metadata_columns.values())
    )
    ids = match_by_name(table.name, row, shape.row_ids, changelog_columns)
    schema = with_identifier_fields(table.name, found.schema(), [ids[key_id] for key_id in shape.key_ids])
    changes = schema_changes(row, shape.row_ids, schema or found.schema(), ids)
    if changes:
        raise Invalid(
            f"{table.name}: its columns are not those of the changelog, which has: {'; '.join(changes)}. "
            "Change the table's columns with the engine that created it."
        )
    if schema is not None:
        schema = assign_schema_id(found.metadata, schema)
    _require_parquet(found)
    cursor, history = _merged_range(changelog, str(table.changelog_id), merged_up_to)
    if (last := find_truncation(changelog.io, history, shape)) is not None:
        cursor, shape = (
            cursor.with_truncation(last.truncation),
            replace(shape, followed_truncation=last.truncation),
        )
    live = recount_deleted_rows(found.io, live_files(found.io, found.current_snapshot()), None)
    return AdoptionCandidate(found, shape, ids, schema, live, cursor, history, changelog, metadata_columns)


def _require_format(name: str, table: Table) -> None:
    version = table.metadata.format_version
    if version < 2:
        raise Invalid(
            f"{name}: has format version 1, which cannot delete single rows. Upgrade it first: "
            "set the table property format-version to 2 (no data file is rewritten)."
        )
    if version >= 3:
        refuse_reserved_names(name, table.schema())


def _require_parquet(table: Table) -> None:
    head = table.current_snapshot()
    for manifest in load_manifests(table.io, head) if head else ():
        for entry in read_manifest_entries(table.io, manifest):
            if entry.data_file.file_format not in (FileFormat.PARQUET, FileFormat.PUFFIN):
                raise Invalid(
                    f"a data file has the format {entry.data_file.file_format.name}; only Parquet can be indexed. "
                    f"Rewrite the table's data files as Parquet first. The data file: {entry.data_file.file_path}"
                )


def _merged_range(changelog: Table, name: str, up_to: str) -> tuple[Cursor, tuple[ChangelogFile, ...]]:
    """Return the cursor, and the changelog files up to it."""
    head = changelog.current_snapshot()
    if up_to == "none" or (up_to == "head" and head is None):
        return Cursor(sources=()), ()
    history = whole_history(changelog, name)
    wanted = str(head.snapshot_id) if up_to == "head" and head else up_to
    at = next(
        (index for index, snapshot in enumerate(history.snapshots) if str(snapshot.snapshot_id) == wanted),
        None,
    )
    if at is None:
        raise Invalid(
            f"{name}: has no snapshot {up_to} in its history. Give one of its snapshots, head or none."
        )
    files = added_files(changelog.io, name, history)
    merged_snapshots = history.snapshots[: at + 1]
    source = CursorSource(
        uuid=str(changelog.metadata.table_uuid),
        snapshot_id=merged_snapshots[-1].snapshot_id,
        sequence_number=merged_snapshots[-1].sequence_number or 0,
    )
    merged = [file for snapshot in merged_snapshots for file in files.get(snapshot.snapshot_id, ())]
    return Cursor(sources=(source,)), tuple(merged)
