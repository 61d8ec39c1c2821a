"""Checks a table that may become the mirror by its metadata, and finds how much of the changelog it already holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from icemirror.tables.cursor import Cursor, CursorSource
from spark_job.changelog.added_files import ChangelogFile, added_files
from spark_job.changelog.history import whole_history
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import find_truncation
from spark_job.columns.added_columns import find_deleted_flag
from spark_job.columns.field_map import FieldMap
from spark_job.commands.adopt.schema_differences import describe_schema_differences
from spark_job.iceberg.catalogs import Catalogs
from spark_job.iceberg.lineage_columns import refuse_reserved_names
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.iceberg.manifests import load_manifests
from spark_job.iceberg.property_names import PROPERTY_SOURCE
from spark_job.iceberg.schema_change import assign_schema_id
from spark_job.plan.key_change import refuse_append_only
from spark_job.plan.match_names import match_by_name
from spark_job.plan.row_columns import row_schema, row_shape
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from spark_job.write.read_deletes import recount_deleted_rows


@dataclass(frozen=True)
class AdoptionCandidate:
    """A table that passed the checks which need no rows. `schema`: its new schema; None if it stays.

    `metadata_columns`: field ids of icemirror's columns, by role.
    """

    iceberg_table: Table
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
        """The number of rows that a reader sees."""
        return sum(file.live_rows for file in self.live.values())


def examine_candidate(
    catalogs: Catalogs, table_settings: TableSettings, merged_up_to: str
) -> AdoptionCandidate:
    """Return the candidate; raise if its metadata rules it out as a mirror."""
    refuse_append_only(table_settings, "so its rows cannot be matched with events. Let a merge create it.")
    candidate = catalogs.load_mirror(table_settings)
    if candidate is None:
        raise Invalid(
            f"{table_settings.name}: the table does not exist. `icemirror merge` creates the mirror."
        )
    if PROPERTY_SOURCE in candidate.metadata.properties:
        raise Invalid(
            f"{table_settings.name}: the table is already the mirror of "
            f"{candidate.metadata.properties[PROPERTY_SOURCE].split()[0]}; nothing to do."
        )
    changelog = catalogs.load_changelog(table_settings)
    if candidate.metadata.table_uuid == changelog.metadata.table_uuid:
        raise Invalid(
            f"{table_settings.name}: the table is the changelog itself. Set mirror_table to another name."
        )
    _require_format(table_settings.name, candidate)
    shape = row_shape(table_settings, changelog, None).with_mirror_salt(candidate.metadata.table_uuid)
    row = row_schema(table_settings, changelog.schema(), shape.row_ids)
    metadata_columns = find_deleted_flag(table_settings, candidate.schema())
    changelog_columns = Schema(
        *(field for field in candidate.schema().fields if field.field_id not in metadata_columns.values())
    )
    field_map = match_by_name(table_settings.name, row, shape.row_ids, changelog_columns)
    schema = _with_identifier_fields(
        table_settings.name, candidate.schema(), [field_map[key_id] for key_id in shape.key_ids]
    )
    differences = describe_schema_differences(row, shape.row_ids, schema or candidate.schema(), field_map)
    if differences:
        raise Invalid(
            f"{table_settings.name}: its columns are not those of the changelog, which has: {'; '.join(differences)}. "
            "Change the table's columns with the engine that created it."
        )
    if schema is not None:
        schema = assign_schema_id(candidate.metadata, schema)
    _require_parquet(candidate)
    cursor, history = _merged_range(changelog, str(table_settings.changelog_id), merged_up_to)
    if (last_truncation := find_truncation(changelog.io, history, shape)) is not None:
        cursor, shape = (
            cursor.with_truncation(last_truncation.truncation),
            replace(shape, applied_truncation=last_truncation.truncation),
        )
    live = recount_deleted_rows(candidate.io, live_files(candidate.io, candidate.current_snapshot()), None)
    return AdoptionCandidate(
        candidate, shape, field_map, schema, live, cursor, history, changelog, metadata_columns
    )


def _require_format(name: str, iceberg_table: Table) -> None:
    version = iceberg_table.metadata.format_version
    if version < 2:
        raise Invalid(
            f"{name}: has format version 1, which cannot delete single rows. Upgrade it first: "
            "set the table property format-version to 2 (no data file is rewritten)."
        )
    if version >= 3:
        refuse_reserved_names(name, iceberg_table.schema())


def _require_parquet(iceberg_table: Table) -> None:
    head = iceberg_table.current_snapshot()
    for manifest in load_manifests(iceberg_table.io, head) if head else ():
        for entry in read_manifest_entries(iceberg_table.io, manifest):
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
    last_merged_id = str(head.snapshot_id) if up_to == "head" and head else up_to
    last_merged_index = next(
        (
            index
            for index, snapshot in enumerate(history.snapshots)
            if str(snapshot.snapshot_id) == last_merged_id
        ),
        None,
    )
    if last_merged_index is None:
        raise Invalid(
            f"{name}: has no snapshot {up_to} in its history. Give one of its snapshots, head or none."
        )
    files = added_files(changelog.io, name, history)
    merged_snapshots = history.snapshots[: last_merged_index + 1]
    source = CursorSource(
        uuid=str(changelog.metadata.table_uuid),
        snapshot_id=merged_snapshots[-1].snapshot_id,
        sequence_number=merged_snapshots[-1].sequence_number or 0,
    )
    merged = [file for snapshot in merged_snapshots for file in files.get(snapshot.snapshot_id, ())]
    return Cursor(sources=(source,)), tuple(merged)


def _with_identifier_fields(name: str, table: Schema, key_ids: Sequence[int]) -> Schema | None:
    """Return the table's schema with the key as required identifier fields; None if it has them already."""
    if table.identifier_field_ids:
        if set(table.identifier_field_ids) != set(key_ids):
            raise Invalid(
                f"{name}: its identifier fields are {_join_names(table, table.identifier_field_ids)}, "
                f"but the key is {_join_names(table, key_ids)}. "
                "Name the same columns in primary_keys, or change the identifier fields."
            )
        return None
    fields = [
        field.model_copy(update={"required": True}) if field.field_id in key_ids else field
        for field in table.fields
    ]
    return Schema(*fields, identifier_field_ids=list(key_ids))


def _join_names(schema: Schema, field_ids: Sequence[int]) -> str:
    return ", ".join(sorted(schema.find_column_name(field_id) or "?" for field_id in field_ids))
