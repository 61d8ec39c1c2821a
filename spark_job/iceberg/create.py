"""The first run: creates the mirror, empty, with the map back to its changelog in its properties."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import suppress

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import parse_transform

from icemirror.errors import Invalid, Transient
from icemirror.settings import TableSettings
from icemirror.settings.partitioning import PartitionField as PartitionBy
from spark_job.columns.field_map import FieldMap, dump_map, load_map, renumber
from spark_job.iceberg.failures import answered
from spark_job.iceberg.file_locations import file_locations
from spark_job.iceberg.lineage_columns import require_free_names
from spark_job.iceberg.mirror import FIELD_MAP, SOURCE
from spark_job.iceberg.own_properties import named_code, require_known_code
from spark_job.iceberg.readable_partitions import require_readable_partition
from spark_job.iceberg.seams import allow_v3_metadata
from spark_job.iceberg.write_properties import check_properties

# Every merge writes a metadata file; the last ones are enough for whoever is reading one at that moment.
BOUNDED = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def create_mirror(
    catalog: Catalog, settings: TableSettings, changelog: Table, schema: Schema, ids: FieldMap
) -> Table:
    """Creates the mirror; one that somebody else created meanwhile, or an earlier attempt, is loaded instead."""
    spec = check_definition(settings, schema)
    if settings.format_version >= 3:
        allow_v3_metadata()
    with suppress(NamespaceAlreadyExistsError):  # somebody else's at the same moment
        catalog.create_namespace_if_not_exists(settings.mirror_id.namespace)
    properties = {
        **BOUNDED,
        **settings.table_properties,
        "format-version": str(settings.format_version),
        FIELD_MAP: dump_map(ids),
        SOURCE: f"{settings.changelog_id} {changelog.metadata.table_uuid}",
    }
    with answered(settings.name):
        try:
            table = catalog.create_table(
                settings.mirror_id.parts, schema, partition_spec=spec, properties=properties
            )
        except TableAlreadyExistsError:
            table = _load(catalog, settings)
        except ValueError as error:
            if type(error) is not ValueError:  # of an answer
                raise
            # PyIceberg cannot tell where the table would be, or does not know such a place.
            raise Invalid(
                f"{settings.name}: the mirror cannot be made: {error}. Set the catalog's warehouse, or correct it."
            ) from error
    require_known_code(table, named_code(settings))
    return _with_given_ids(table)


def check_definition(settings: TableSettings, schema: Schema) -> PartitionSpec:
    """Refuses what cannot be made of the settings, before anything is; the partitions."""
    spec = partition_spec(settings.name, settings.partition_by, schema)
    check_properties(settings.table_properties)
    file_locations("", settings.table_properties)
    if settings.format_version >= 3:
        require_free_names(settings.name, schema)
    return spec


def _load(catalog: Catalog, settings: TableSettings) -> Table:
    try:
        return catalog.load_table(settings.mirror_id.parts)
    except NoSuchTableError as error:
        raise Transient(
            f"{settings.name}: the catalog would not create the mirror because it exists, and says that it does not"
        ) from error


def _with_given_ids(table: Table) -> Table:
    """The new mirror, with the map to the field ids that the catalog gave it."""
    noted = table.metadata.properties.get(FIELD_MAP)
    if noted is not None and table.current_snapshot() is None:
        given = dump_map(renumber(load_map(noted), table.schema()))
        if given != noted:
            with table.transaction() as transaction:
                transaction.set_properties({FIELD_MAP: given})
    return table


def partition_spec(name: str, partition_by: Sequence[PartitionBy], schema: Schema) -> PartitionSpec:
    """The spec for partition expressions such as `day(created_at)`."""
    fields: list[PartitionField] = []
    for number, wanted in enumerate(partition_by):
        column = next((field for field in schema.fields if field.name == wanted.column), None)
        if column is None:
            names = [field.name for field in schema.fields]
            near = difflib.get_close_matches(wanted.column, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names[:20])}"
            raise Invalid(
                f"{name}: partition_by names column {wanted.column}, which the mirror does not have; {hint}"
            )
        text = wanted.transform if wanted.argument is None else f"{wanted.transform}[{wanted.argument}]"
        transform = parse_transform(text)
        if not transform.can_transform(column.field_type):
            raise Invalid(f"{name}: {text}({wanted.column}) is not defined for type {column.field_type}")
        require_readable_partition(name, wanted.column, column.field_type, transform)
        field_name = wanted.name
        if any(field.name == field_name for field in fields):
            raise Invalid(
                f"{name}: partition_by has two partitions {field_name}; Iceberg takes one. Drop one."
            )
        if wanted.transform != "identity" and field_name in schema.column_names:
            raise Invalid(
                f"{name}: the partition {text}({wanted.column}) would be called {field_name}, like a column of the "
                "mirror, which Iceberg refuses. Partition by something else."
            )
        fields.append(
            PartitionField(
                source_id=column.field_id,
                field_id=PARTITION_FIELD_ID_START + number,
                transform=transform,
                name=field_name,
            )
        )
    return PartitionSpec(*fields)
