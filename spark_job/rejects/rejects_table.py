"""The rejects table of a mirror: opens or creates it, and finds the rows that it already has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField, StructType

from icemirror.errors import Invalid, Transient
from icemirror.processes.crash_points import crash_point
from icemirror.settings import TableSettings
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import pack_positions
from spark_job.changelog.rejected_rows import RejectedRows
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.arrays import Mask
from spark_job.columns.distinct import distinct
from spark_job.columns.field_map import dump_field_map, field_ids, load_field_map, with_assigned_ids
from spark_job.iceberg.catalogs import Catalogs
from spark_job.iceberg.create import METADATA_RETENTION
from spark_job.iceberg.lineage_columns import refuse_reserved_names
from spark_job.iceberg.property_names import PROPERTY_FIELD_MAP, PROPERTY_REJECTS_OF
from spark_job.iceberg.supported_types import required_format_version
from spark_job.pyiceberg_private.manifest_files import enable_v3_metadata
from spark_job.rejects.rejects_schema import RejectsColumn, RejectsSchema, evolve_rejects_schema
from spark_job.storage.translate_errors import catalog_response_errors


@dataclass(frozen=True)
class RejectsTable:
    """The table with its current columns, and those after the next commit. `source_ids`: the changelog's fields."""

    table: Table
    current_columns: RejectsSchema
    next_columns: RejectsSchema
    source_ids: frozenset[int]
    owner: str

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.table.name())

    @property
    def new_schema(self) -> Schema | None:
        """The schema that the next commit must add; None if the table has the columns."""
        metadata = self.table.metadata
        if self.next_columns.schema.as_struct() == metadata.schema().as_struct():
            return None
        schema_id = 1 + max(schema.schema_id for schema in metadata.schemas)
        schema = self.next_columns.schema
        return Schema(*schema.fields, schema_id=schema_id, identifier_field_ids=schema.identifier_field_ids)

    @property
    def metadata(self) -> TableMetadata:
        """The metadata after the next commit has added the columns."""
        schema, metadata = self.new_schema, self.table.metadata
        if schema is None:
            return metadata
        added = {"schemas": [*metadata.schemas, schema], "current_schema_id": schema.schema_id}
        return metadata.model_copy(update=added)

    @property
    def properties(self) -> dict[str, str]:
        """The table properties that the next commit sets."""
        return {
            PROPERTY_FIELD_MAP: dump_field_map(self.next_columns.field_map),
            PROPERTY_REJECTS_OF: self.owner,
        }


def find_rejects(catalogs: Catalogs, table_settings: TableSettings) -> tuple[Table, RejectsSchema] | None:
    """Return the rejects table and its columns; None if it does not exist."""
    iceberg_table = catalogs.load_rejects(table_settings)
    return (
        None
        if iceberg_table is None
        else (iceberg_table, _require_rejects_table(iceberg_table, table_settings))
    )


def open_rejects(
    catalogs: Catalogs, table_settings: TableSettings, changelog: Table, shape: ChangelogShape
) -> RejectsTable:
    """Return the rejects table; create it if it does not exist."""
    fields = recorded_fields(changelog.schema(), shape)
    owner = f"{table_settings.name} {changelog.metadata.table_uuid}"
    iceberg_table = catalogs.load_rejects(table_settings) or _create(
        catalogs, table_settings, evolve_rejects_schema(fields), owner
    )
    current_columns = _require_rejects_table(iceberg_table, table_settings)
    last_id = iceberg_table.metadata.last_column_id
    is_other_changelog = iceberg_table.metadata.properties[PROPERTY_REJECTS_OF] != owner
    next_columns = evolve_rejects_schema(fields, current_columns, last_id, by_name=is_other_changelog)
    _require_version(iceberg_table, next_columns.schema)
    source_ids = frozenset(field_ids(Schema(*fields).as_struct()))
    return RejectsTable(iceberg_table, current_columns, next_columns, source_ids, owner)


def recorded_fields(schema: Schema, shape: ChangelogShape) -> list[NestedField]:
    """Return the fields that are recorded: no excluded column, but key, operation and sequence, which may be wrong.

    If columns are excluded, the writer's extra columns are omitted too: an image of the old row would contain them.
    """
    if not shape.excluded_ids:
        return list(schema.fields)
    recorded_ids = frozenset((*shape.row_ids, *shape.event_column_ids))
    return [
        recorded for field in schema.fields if (recorded := _keep_fields(field, recorded_ids)) is not None
    ]


def _keep_fields(field: NestedField, recorded_ids: frozenset[int]) -> NestedField | None:
    """Return a field, or the recorded part of a struct; None if nothing of it is recorded."""
    if field.field_id in recorded_ids:
        return field
    struct = field.field_type
    if not isinstance(struct, StructType):
        return None
    children = [
        recorded for child in struct.fields if (recorded := _keep_fields(child, recorded_ids)) is not None
    ]
    return field.model_copy(update={"field_type": StructType(*children)}) if children else None


def _require_rejects_table(iceberg_table: Table, table_settings: TableSettings) -> RejectsSchema:
    """Return the columns of the table. Raise `Invalid` if it is not the rejects table of this mirror."""
    name = str(table_settings.rejects_id)
    if (
        iceberg_table.metadata.properties.get(PROPERTY_REJECTS_OF, "").rpartition(" ")[0]
        != table_settings.name
    ):
        raise Invalid(
            f"{name}: the table exists, but is not the rejects table of {table_settings.name}. "
            "Choose another rejects_table; nothing was written."
        )
    try:
        field_map = load_field_map(iceberg_table.metadata.properties[PROPERTY_FIELD_MAP])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Invalid(
            f"{name}: the table property {PROPERTY_FIELD_MAP} is missing or damaged: {error!r}. Restore it from an "
            "earlier metadata file of the table, or choose another rejects_table."
        ) from error
    if iceberg_table.current_snapshot() is None:
        field_map = with_assigned_ids(field_map, iceberg_table.schema())
    return RejectsSchema(iceberg_table.schema(), field_map)


def _require_version(iceberg_table: Table, schema: Schema) -> None:
    """Raise `Invalid` for column types that need a later format version than the table's."""
    min_version = required_format_version(schema)
    if min_version > iceberg_table.metadata.format_version:
        raise Invalid(
            f"{'.'.join(iceberg_table.name())}: has format version {iceberg_table.metadata.format_version}, but the "
            f"changelog has column types that need version {min_version}. Upgrade it with an engine (`ALTER TABLE … "
            f"SET TBLPROPERTIES ('format-version' = '{min_version}')`), or choose another rejects_table."
        )


def _create(catalogs: Catalogs, table_settings: TableSettings, columns: RejectsSchema, owner: str) -> Table:
    """Create the table; return the existing one if another job created it first."""
    name, catalog = str(table_settings.rejects_id), catalogs.get(table_settings.mirror_catalog)
    version = max(table_settings.format_version, required_format_version(columns.schema))
    if version >= 3:
        refuse_reserved_names(name, columns.schema)
        enable_v3_metadata()
    with suppress(NamespaceAlreadyExistsError):  # another job created it first
        catalog.create_namespace_if_not_exists(table_settings.rejects_id.namespace)
    properties = {
        **METADATA_RETENTION,
        "format-version": str(version),
        PROPERTY_FIELD_MAP: dump_field_map(columns.field_map),
        PROPERTY_REJECTS_OF: owner,
    }
    crash_point("create-rejects")
    with catalog_response_errors(name):
        try:
            iceberg_table = catalog.create_table(
                table_settings.rejects_id.parts, columns.schema, properties=properties
            )
        except TableAlreadyExistsError:
            existing_table = catalogs.load_rejects(table_settings)
            if existing_table is None:
                raise Transient(
                    f"{name}: the catalog refused to create the table because it exists, but does not find it"
                ) from None
            return existing_table
    crash_point("rejects-created")
    return catalogs.with_renewable_credentials(table_settings.mirror_catalog, iceberg_table)


def find_recorded(
    iceberg_table: Table, columns: RejectsSchema, files: Sequence[ChangelogFile], rejected: RejectedRows
) -> Mask:
    """Return for each rejected row whether the table has it; only files with rows of the same commits are read."""
    column_names = _position_columns(columns)
    if iceberg_table.current_snapshot() is None or column_names is None:
        return np.zeros(len(rejected), dtype=np.bool_)
    ordinals = distinct(rejected.file)
    commits = [files[ordinal].sequence_number for ordinal in ordinals.tolist()]
    # Compaction of the changelog may shift a file's commit by one.
    rows = _read_positions(iceberg_table, *column_names, min(commits) - 1, max(commits) + 1)
    paths = pa.array([files[ordinal].path for ordinal in ordinals.tolist()], pa.large_string())
    path_index = pc.index_in(rows.column(0).cast(pa.large_string()), value_set=paths)
    in_slice = path_index.is_valid()
    file = ordinals[path_index.filter(in_slice).to_numpy()]
    row = rows.column(1).filter(in_slice).to_numpy().astype(np.uint32)
    return np.isin(pack_positions(rejected.file, rejected.row), pack_positions(file, row))


def _position_columns(columns: RejectsSchema) -> tuple[str, str, str] | None:
    """Return the names of the columns for commit, file and position; None if one was dropped."""
    schema, field_map = columns.schema, columns.field_map
    commit, file, position = (
        schema.find_column_name(field_map.get(column, 0))
        for column in (RejectsColumn.COMMIT, RejectsColumn.FILE, RejectsColumn.POSITION)
    )
    return (commit, file, position) if commit and file and position else None


def _read_positions(
    iceberg_table: Table, commit: str, file: str, position: str, first_commit: int, last_commit: int
) -> pa.Table:
    """Read file and position of the rows that were rejected in these commits."""
    commit_column = Reference(name=commit)
    in_commits = And(
        GreaterThanOrEqual(term=commit_column, value=literal(first_commit)),
        LessThanOrEqual(term=commit_column, value=literal(last_commit)),
    )
    try:
        rows = iceberg_table.scan(row_filter=in_commits, selected_fields=(file, position)).to_arrow()
    except (ValueError, NotImplementedError) as error:  # equality deletes, which PyIceberg does not read
        raise Invalid(
            f"{'.'.join(iceberg_table.name())}: its rows cannot be read ({type(error).__name__}); nothing was "
            "merged. Rewrite its data files with the engine that wrote to it, or choose another rejects_table."
        ) from error
    return rows.select([file, position]).drop_null()
