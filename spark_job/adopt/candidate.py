"""A table that may become the mirror: what metadata tell of it, and how much of the changelog it holds already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.cursor import Cursor, Source
from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.lineage import added_files, history_since
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import find_truncation
from spark_job.columns.field_map import FieldMap, schema_changes
from spark_job.columns.own_columns import flag_of
from spark_job.iceberg.lineage_columns import require_free_names
from spark_job.iceberg.manifests import known_manifests
from spark_job.iceberg.mirror import SOURCE
from spark_job.iceberg.next_schema import numbered
from spark_job.iceberg.seams import read_entries
from spark_job.iceberg.tables import Catalogs
from spark_job.iceberg.view import LiveFile, live_files
from spark_job.index_upkeep.recount import recount
from spark_job.planning.support import require_key, require_supported
from spark_job.schema_changes.match_names import match_by_name, with_key
from spark_job.schema_changes.row_columns import row_schema, row_shape


@dataclass(frozen=True)
class Candidate:
    """A table that may become the mirror, after the checks that need no row. `schema` is the one that it shall get.

    `own`: columns that it has beyond the changelog's, by what they are.
    """

    table: Table
    shape: ChangelogShape
    field_map: FieldMap
    schema: Schema | None
    live: Mapping[str, LiveFile]
    cursor: Cursor
    history: tuple[ChangeFile, ...]
    changelog: Table
    own: Mapping[str, int]

    @property
    def live_rows(self) -> int:
        """Rows that a reader sees."""
        return sum(file.rows - file.deleted for file in self.live.values())


def examine(catalogs: Catalogs, table: TableSettings, merged_up_to: str) -> Candidate:
    """Refuses what cannot be a mirror, as far as metadata tell."""
    require_supported(table)
    require_key(
        table, "so nobody can tell which of its rows the changelog will tell of. Let a merge make it."
    )
    found = catalogs.load_mirror(table)
    if found is None:
        raise Invalid(
            f"{table.name}: there is no such table to adopt. Without one `icemirror merge` makes it."
        )
    if SOURCE in found.metadata.properties:
        raise Invalid(
            f"{table.name}: is a mirror already, of {found.metadata.properties[SOURCE].split()[0]}."
        )
    changelog = catalogs.load_changelog(table)
    if found.metadata.table_uuid == changelog.metadata.table_uuid:
        raise Invalid(f"{table.name}: is the changelog itself. Name another mirror_table.")
    _require_format(table.name, found)
    shape = row_shape(table, changelog, None).of_mirror(found.metadata.table_uuid)
    row = row_schema(table, changelog.schema(), shape.row_ids)
    own = flag_of(table, found.schema())
    theirs = Schema(*(field for field in found.schema().fields if field.field_id not in own.values()))
    ids = match_by_name(table.name, row, shape.row_ids, theirs)
    schema = with_key(table.name, found.schema(), [ids[key_id] for key_id in shape.key_ids])
    changes = schema_changes(row, shape.row_ids, schema or found.schema(), ids)
    if changes:
        raise Invalid(
            f"{table.name}: its columns are not those of the changelog, which has: {'; '.join(changes)}. "
            "Change the table's columns with the engine that made it."
        )
    if schema is not None:
        schema = numbered(found.metadata, schema)
    _require_parquet(found)
    cursor, history = _merged_already(changelog, str(table.changelog_id), merged_up_to)
    if (last := find_truncation(changelog.io, history, shape)) is not None:
        cursor, shape = cursor.truncated_at(last.truncation), replace(shape, truncated=last.truncation)
    live = recount(found.io, live_files(found.io, found.current_snapshot()), None)
    return Candidate(found, shape, ids, schema, live, cursor, history, changelog, own)


def _require_format(name: str, table: Table) -> None:
    version = table.metadata.format_version
    if version < 2:
        raise Invalid(
            f"{name}: is of format version 1, in which rows cannot be deleted one by one. Upgrade it first: "
            "set the table property format-version to 2 (no data file is rewritten)."
        )
    if version >= 3:
        require_free_names(name, table.schema())


def _require_parquet(table: Table) -> None:
    head = table.current_snapshot()
    for manifest in known_manifests(table.io, head) if head else ():
        for entry in read_entries(table.io, manifest):
            if entry.data_file.file_format not in (FileFormat.PARQUET, FileFormat.PUFFIN):
                raise Invalid(
                    f"{entry.data_file.file_path}: is a file of {entry.data_file.file_format.name}; only Parquet can "
                    "be indexed. Rewrite the table's data files as Parquet first."
                )


def _merged_already(changelog: Table, name: str, up_to: str) -> tuple[Cursor, tuple[ChangeFile, ...]]:
    """The cursor, and the changelog's files up to there."""
    head = changelog.current_snapshot()
    if up_to == "none" or (up_to == "head" and head is None):
        return Cursor(sources=()), ()
    history = history_since(changelog, name, None)
    wanted = str(head.snapshot_id) if up_to == "head" and head else up_to
    at = next((n for n, one in enumerate(history.snapshots) if str(one.snapshot_id) == wanted), None)
    if at is None:
        raise Invalid(
            f"{name}: has no snapshot {up_to} in its history. Give one of its snapshots, head or none."
        )
    files = added_files(changelog.io, name, history)
    upto = history.snapshots[: at + 1]
    source = Source(
        uuid=str(changelog.metadata.table_uuid),
        snapshot_id=upto[-1].snapshot_id,
        sequence_number=upto[-1].sequence_number or 0,
    )
    merged = [file for snapshot in upto for file in files.get(snapshot.snapshot_id, ())]
    return Cursor(sources=(source,)), tuple(merged)
