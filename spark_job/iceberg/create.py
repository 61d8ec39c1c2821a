"""Creates an empty mirror, with the field map to its changelog in its properties."""

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
from spark_job.columns.added_columns import added_name_conflict
from spark_job.columns.field_map import FieldMap, dump_field_map, load_field_map, with_assigned_ids
from spark_job.iceberg.lineage_columns import refuse_reserved_names
from spark_job.iceberg.property_names import PROPERTY_FIELD_MAP, PROPERTY_SOURCE
from spark_job.iceberg.supported_types import require_supported_partition
from spark_job.iceberg.write_properties import check_properties, file_locations
from spark_job.pyiceberg_private.manifest_files import enable_v3_metadata
from spark_job.pyiceberg_private.untrusted_properties import (
    configured_location_provider,
    require_trusted_location_provider,
)
from spark_job.storage.translate_errors import catalog_response_errors

# Every merge writes a metadata file. The last ones suffice for concurrent readers.
METADATA_RETENTION = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def create_mirror(
    catalog: Catalog, table_settings: TableSettings, changelog: Table, schema: Schema, field_map: FieldMap
) -> Table:
    """Create the mirror and return it. Load it if another job or an earlier attempt created it."""
    spec = validate_new_mirror(table_settings, schema)
    if table_settings.format_version >= 3:
        enable_v3_metadata()
    with suppress(NamespaceAlreadyExistsError):  # another job created it concurrently
        catalog.create_namespace_if_not_exists(table_settings.mirror_id.namespace)
    properties = {
        **METADATA_RETENTION,
        **table_settings.table_properties,
        "format-version": str(table_settings.format_version),
        PROPERTY_FIELD_MAP: dump_field_map(field_map),
        PROPERTY_SOURCE: f"{table_settings.changelog_id} {changelog.metadata.table_uuid}",
    }
    with catalog_response_errors(table_settings.name):
        try:
            mirror_table = catalog.create_table(
                table_settings.mirror_id.parts, schema, partition_spec=spec, properties=properties
            )
        except TableAlreadyExistsError:
            mirror_table = _load_existing(catalog, table_settings)
        except ValueError as error:
            if type(error) is not ValueError:  # an invalid response of the catalog
                raise
            # PyIceberg cannot determine the table's location, or does not support its scheme.
            raise Invalid(
                f"{table_settings.name}: the mirror cannot be created: {error}. Set the catalog's warehouse, or "
                "correct it."
            ) from error
    require_trusted_location_provider(mirror_table, configured_location_provider(table_settings))
    return _with_assigned_ids(mirror_table)


def validate_new_mirror(table_settings: TableSettings, schema: Schema) -> PartitionSpec:
    """Return the partition spec of a new mirror. Raise `Invalid` for wrong settings, before anything is created."""
    if (conflict := added_name_conflict(table_settings, schema)) is not None:
        raise Invalid(conflict)
    spec = build_partition_spec(table_settings.name, table_settings.partition_by, schema)
    check_properties(table_settings.table_properties)
    file_locations("", table_settings.table_properties)
    if table_settings.format_version >= 3:
        refuse_reserved_names(table_settings.name, schema)
    return spec


def _load_existing(catalog: Catalog, table_settings: TableSettings) -> Table:
    """Return the mirror that the catalog refused to create because it exists."""
    try:
        return catalog.load_table(table_settings.mirror_id.parts)
    except NoSuchTableError as error:
        raise Transient(
            f"{table_settings.name}: the catalog refused to create the mirror because it exists, but does not find it"
        ) from error


def _with_assigned_ids(mirror_table: Table) -> Table:
    """Store the map to the field ids that the catalog assigned. Return the table."""
    stored = mirror_table.metadata.properties.get(PROPERTY_FIELD_MAP)
    if stored is not None and mirror_table.current_snapshot() is None:
        assigned = dump_field_map(with_assigned_ids(load_field_map(stored), mirror_table.schema()))
        if assigned != stored:
            with mirror_table.transaction() as transaction:
                transaction.set_properties({PROPERTY_FIELD_MAP: assigned})
    return mirror_table


def build_partition_spec(name: str, partition_by: Sequence[PartitionBy], schema: Schema) -> PartitionSpec:
    """Return the partition spec for expressions such as `day(created_at)`."""
    fields: list[PartitionField] = []
    for position, partition in enumerate(partition_by):
        column = next((field for field in schema.fields if field.name == partition.column), None)
        if column is None:
            names = [field.name for field in schema.fields]
            similar_names = difflib.get_close_matches(partition.column, names, n=1)
            hint = f"did you mean {similar_names[0]}?" if similar_names else f"it has {', '.join(names[:20])}"
            raise Invalid(
                f"{name}: partition_by names column {partition.column}, which the mirror does not have; {hint}"
            )
        text = (
            partition.transform
            if partition.argument is None
            else f"{partition.transform}[{partition.argument}]"
        )
        transform = parse_transform(text)
        if not transform.can_transform(column.field_type):
            raise Invalid(f"{name}: {text}({partition.column}) is not defined for type {column.field_type}")
        require_supported_partition(name, partition.column, column.field_type, transform)
        field_name = partition.name
        if any(field.name == field_name for field in fields):
            raise Invalid(f"{name}: partition_by defines {field_name} twice. Remove one.")
        if partition.transform != "identity" and field_name in schema.column_names:
            raise Invalid(
                f"{name}: the partition {text}({partition.column}) would have the name {field_name}, like a column of "
                "the mirror, which Iceberg does not allow. Choose another partition."
            )
        fields.append(
            PartitionField(
                source_id=column.field_id,
                field_id=PARTITION_FIELD_ID_START + position,
                transform=transform,
                name=field_name,
            )
        )
    return PartitionSpec(*fields)
