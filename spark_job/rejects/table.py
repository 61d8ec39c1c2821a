"""The rejects table of a mirror: found or made, with the columns that rows of the changelog need."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField, StructType

from icemirror.crash import reach
from icemirror.errors import Invalid, Transient
from icemirror.settings import TableSettings
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.field_map import dump_map, field_ids, load_map, renumber
from spark_job.iceberg.column_types import least_version
from spark_job.iceberg.create import BOUNDED
from spark_job.iceberg.failures import answered
from spark_job.iceberg.lineage_columns import require_free_names
from spark_job.iceberg.mirror import FIELD_MAP
from spark_job.iceberg.seams import allow_v3_metadata
from spark_job.iceberg.tables import Catalogs
from spark_job.rejects.columns import Columns, grow

REJECTS_OF = "icemirror.rejects-of"  # the mirror, and the changelog's uuid


@dataclass(frozen=True)
class RejectsTable:
    """The table as it stands, and the columns that it shall have. `source_ids`: those of the changelog among them."""

    table: Table
    standing: Columns
    columns: Columns
    source_ids: frozenset[int]
    owner: str

    @property
    def name(self) -> str:
        """Its dotted name."""
        return ".".join(self.table.name())

    @property
    def new_schema(self) -> Schema | None:
        """The schema that the next commit must bring; None where it has the columns."""
        metadata = self.table.metadata
        if self.columns.schema.as_struct() == metadata.schema().as_struct():
            return None
        number = 1 + max(one.schema_id for one in metadata.schemas)
        columns = self.columns.schema
        return Schema(*columns.fields, schema_id=number, identifier_field_ids=columns.identifier_field_ids)

    @property
    def metadata(self) -> TableMetadata:
        """As it is once the next commit has brought its columns."""
        schema, metadata = self.new_schema, self.table.metadata
        if schema is None:
            return metadata
        added = {"schemas": [*metadata.schemas, schema], "current_schema_id": schema.schema_id}
        return metadata.model_copy(update=added)

    @property
    def properties(self) -> dict[str, str]:
        """What the next commit notes."""
        return {FIELD_MAP: dump_map(self.columns.ids), REJECTS_OF: self.owner}


def find_rejects(catalogs: Catalogs, settings: TableSettings) -> tuple[Table, Columns] | None:
    """The rejects table with the columns that it has, if there is one."""
    table = catalogs.load_rejects(settings)
    return None if table is None else (table, _require_ours(table, settings))


def open_rejects(
    catalogs: Catalogs, settings: TableSettings, changelog: Table, shape: ChangelogShape
) -> RejectsTable:
    """The rejects table as it is now, made if need be."""
    fields = kept_fields(changelog.schema(), shape)
    owner = f"{settings.name} {changelog.metadata.table_uuid}"
    table = catalogs.load_rejects(settings) or _create(catalogs, settings, grow(fields), owner)
    standing = _require_ours(table, settings)
    last_id = table.metadata.last_column_id
    another = table.metadata.properties[REJECTS_OF] != owner
    columns = grow(fields, standing, last_id, by_name=another)
    _require_version(table, columns.schema)
    sources = frozenset(field_ids(Schema(*fields).as_struct()))
    return RejectsTable(table, standing, columns, sources, owner)


def kept_fields(schema: Schema, shape: ChangelogShape) -> list[NestedField]:
    """Without the columns that must not reach the mirror; but with those that may be what is wrong.

    Where something is left out, the writer's other columns are as well: an image of the row before would hold it.
    """
    if not shape.left_out:
        return list(schema.fields)
    kept = frozenset((*shape.row_ids, *shape.narrow_ids))
    return [found for field in schema.fields if (found := _only(field, kept)) is not None]


def _only(field: NestedField, kept: frozenset[int]) -> NestedField | None:
    """A field, or as much of a struct as is kept."""
    if field.field_id in kept:
        return field
    kind = field.field_type
    if not isinstance(kind, StructType):
        return None
    inside = [found for one in kind.fields if (found := _only(one, kept)) is not None]
    return field.model_copy(update={"field_type": StructType(*inside)}) if inside else None


def _require_ours(table: Table, settings: TableSettings) -> Columns:
    """The columns of the table; refuses one that is not for the bad rows of this mirror."""
    name = str(settings.rejects_id)
    if table.metadata.properties.get(REJECTS_OF, "").rpartition(" ")[0] != settings.name:
        raise Invalid(
            f"{name}: the table exists, but is not the rejects table of {settings.name}. "
            "Name another rejects_table, so that nothing of yours is written to."
        )
    try:
        ids = load_map(table.metadata.properties[FIELD_MAP])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Invalid(
            f"{name}: the table property {FIELD_MAP} is gone or damaged: {error!r}. Restore it from an earlier "
            "metadata file of the table, or name another rejects_table."
        ) from error
    if table.current_snapshot() is None:
        ids = renumber(ids, table.schema())
    return Columns(table.schema(), ids)


def _require_version(table: Table, schema: Schema) -> None:
    """Refuses columns of types that came with a later format than the table's."""
    least = least_version(schema)
    if least > table.metadata.format_version:
        raise Invalid(
            f"{'.'.join(table.name())}: is of format version {table.metadata.format_version}, and the changelog has "
            f"columns of types that tables have from version {least} on. Upgrade it with an engine (`ALTER TABLE … SET "
            f"TBLPROPERTIES ('format-version' = '{least}')`), or name another rejects_table."
        )


def _create(catalogs: Catalogs, settings: TableSettings, columns: Columns, owner: str) -> Table:
    """A new one; or one that somebody else made meanwhile."""
    name, catalog = str(settings.rejects_id), catalogs.get(settings.mirror_catalog)
    version = max(settings.format_version, least_version(columns.schema))
    if version >= 3:
        require_free_names(name, columns.schema)
        allow_v3_metadata()
    with suppress(NamespaceAlreadyExistsError):  # somebody else's at the same moment
        catalog.create_namespace_if_not_exists(settings.rejects_id.namespace)
    properties = {
        **BOUNDED,
        "format-version": str(version),
        FIELD_MAP: dump_map(columns.ids),
        REJECTS_OF: owner,
    }
    reach("create-rejects")
    with answered(name):
        try:
            table = catalog.create_table(settings.rejects_id.parts, columns.schema, properties=properties)
        except TableAlreadyExistsError:
            found = catalogs.load_rejects(settings)
            if found is None:
                raise Transient(
                    f"{name}: the catalog would not create the table because it exists, and says that it does not"
                ) from None
            return found
    reach("rejects-created")
    return catalogs.lend(settings.mirror_catalog, table)
