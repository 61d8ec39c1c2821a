"""Plans the changes of a mirror's columns that a commit needs for its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace

from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import NestedField, StructType

from icemirror.errors import Transient
from icemirror.settings import TableSettings
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.added_columns import added_column_names, arrange_added_columns
from spark_job.columns.field_map import FieldMap, dump_field_map, field_ids, load_field_map, nested_fields
from spark_job.iceberg.merged_schema import MergedSchema, known_metadata_columns
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.property_names import PROPERTY_FIELD_MAP, PROPERTY_SOURCE, PROPERTY_SOURCE_SCHEMA
from spark_job.iceberg.schema_change import assign_schema_id, renamed_properties
from spark_job.plan.evolve_columns import EvolutionRules, EvolvedColumns, evolve_columns
from spark_job.plan.foreign_columns import find_foreign_changes
from spark_job.plan.row_columns import follows_changelog, merged_schema_for, named_columns, row_schema

_IS_NESSIE = "nessie.is-nessie-catalog"  # in the configuration that Nessie returns
_COMMENT = "comment"  # the table property in which engines store a table's description


@dataclass(frozen=True)
class SchemaEvolution:
    """The next columns of a mirror. `schema` becomes its current one; None: it stays.

    `changes` and `remarks` describe the differences, `refused` those that cannot be followed. `foreign_changes`: what
    other engines changed in the mirror's columns. `metadata_columns`: role → field id.
    """

    schema: Schema | None
    field_map: FieldMap
    properties: Mapping[str, str]
    changes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    foreign_changes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    metadata_columns: Mapping[str, int] = field(default_factory=dict)

    def apply_to(self, metadata: TableMetadata) -> TableMetadata:
        """Return the mirror's metadata after the evolution, for writing its files."""
        schema = self.schema
        if schema is None:
            return metadata
        other_schemas = [other for other in metadata.schemas if other.schema_id != schema.schema_id]
        update = {"schemas": [*other_schemas, schema], "current_schema_id": schema.schema_id}
        return metadata.model_copy(update=update)


def plan_evolution(
    table_settings: TableSettings, changelog: Table, shape: ChangelogShape, mirror: Mirror
) -> SchemaEvolution:
    """Return the columns that the mirror needs for rows of the changelog as it is now."""
    metadata, current_schema = mirror.table.metadata, mirror.table.schema()
    merged_schema = merged_schema_for(mirror.table, changelog.metadata)
    if merged_schema is not None:
        _refuse_stale_metadata(table_settings, changelog.metadata, merged_schema)
    row = row_schema(table_settings, changelog.schema(), shape.row_ids)
    rules = _evolution_rules(table_settings, changelog.metadata, shape, mirror, merged_schema)
    evolved = evolve_columns(row, current_schema, mirror.field_map, metadata.last_column_id, rules)
    arranged = arrange_added_columns(
        evolved.fields,
        added_column_names(table_settings),
        known_metadata_columns(metadata),
        max(metadata.last_column_id, *field_ids(StructType(*evolved.fields))),
        rules.pinned,
    )
    next_schema = current_schema
    if arranged.fields != current_schema.fields and not arranged.refused:
        schema = Schema(*arranged.fields, identifier_field_ids=current_schema.identifier_field_ids)
        next_schema = assign_schema_id(metadata, schema)
    has_new_schema = next_schema is not current_schema
    next_merged_schema = MergedSchema(
        changelog_schema=changelog.metadata.current_schema_id,
        newest_schema=_newest_schema_id(changelog.metadata),
        mirror_schema=next_schema.schema_id,
        comment=changelog.metadata.properties.get(_COMMENT),
        named=named_columns(table_settings, changelog.metadata, merged_schema),
        dropped=evolved.dropped,
        metadata_columns=dict(arranged.ids),
    )
    changed_comment = _changed_comment(table_settings, merged_schema, next_merged_schema)
    return SchemaEvolution(
        schema=next_schema if has_new_schema else None,
        field_map=evolved.field_map,
        properties={
            **(
                renamed_properties(current_schema, next_schema, metadata.properties) if has_new_schema else {}
            ),
            **_changed_properties(table_settings, changelog, mirror, evolved, next_merged_schema),
            **changed_comment,
        },
        changes=evolved.changes,
        remarks=(
            *evolved.remarks,
            *arranged.remarks,
            *(("comment of the table changed",) if changed_comment else ()),
        ),
        foreign_changes=find_foreign_changes(row, changelog.metadata, mirror),
        metadata_columns=arranged.ids,
        refused=(
            *evolved.refused,
            *arranged.refused,
            *(_partition_name_clashes(metadata.specs(), next_schema) if has_new_schema else ()),
            *(_catalog_limits(mirror.table.catalog) if has_new_schema else ()),
        ),
    )


def preview_evolution(
    table_settings: TableSettings, changelog: Table, shape: ChangelogShape, mirror: Mirror
) -> Mirror:
    """Return the mirror with the columns of its next commit, to read rows that are not merged yet."""
    evolution = plan_evolution(table_settings, changelog, shape, mirror)
    if evolution.refused or evolution.foreign_changes:
        return mirror
    mirror_table = copy(mirror.table)
    mirror_table.metadata = evolution.apply_to(mirror_table.metadata)
    return replace(mirror, table=mirror_table, field_map=evolution.field_map)


def initial_merged_schema(
    table_settings: TableSettings,
    changelog: Table,
    mirror_schema: Schema,
    metadata_columns: Mapping[str, int],
) -> str:
    """Return the property `icemirror.source-schema` of a table that becomes the mirror as it is."""
    metadata = changelog.metadata
    merged_schema = MergedSchema(
        changelog_schema=metadata.current_schema_id,
        newest_schema=_newest_schema_id(metadata),
        mirror_schema=mirror_schema.schema_id,
        comment=metadata.properties.get(_COMMENT),
        named=named_columns(table_settings, metadata, None),
        metadata_columns=dict(metadata_columns),
    )
    return merged_schema.model_dump_json(by_alias=True)


def _refuse_stale_metadata(
    table_settings: TableSettings, changelog: TableMetadata, merged_schema: MergedSchema
) -> None:
    """Refuse a stale response: a cache or replica may return the changelog before a change that the mirror followed."""
    if _newest_schema_id(changelog) < merged_schema.newest_schema:
        raise Transient(
            f"{table_settings.changelog_id}: the catalog returned a state before schema "
            f"{merged_schema.newest_schema}, which the mirror has followed; a later attempt may return a newer one."
        )


def _newest_schema_id(changelog: TableMetadata) -> int:
    return max(schema.schema_id for schema in changelog.schemas)


def _evolution_rules(
    table_settings: TableSettings,
    changelog: TableMetadata,
    shape: ChangelogShape,
    mirror: Mirror,
    merged_schema: MergedSchema | None,
) -> EvolutionRules:
    metadata = mirror.table.metadata
    pinned_ids = [field.source_id for spec in metadata.partition_specs for field in spec.fields]
    pinned_ids += [field.source_id for order in metadata.sort_orders for field in order.fields]
    current_ids = {field.field_id for field in changelog.schema().fields}
    named_ids = named_columns(table_settings, changelog, merged_schema)
    excluded_ids = {field_id for name in table_settings.columns.exclude for field_id in named_ids[name]}
    followed_schema = changelog.schema_by_id(merged_schema.changelog_schema) if merged_schema else None
    return EvolutionRules(
        key_ids=frozenset(shape.key_ids),
        pinned=frozenset(pinned_ids),
        excluded=frozenset((current_ids - set(shape.row_ids)) | excluded_ids),
        known_dropped=frozenset(merged_schema.dropped if merged_schema else ()),
        drops_columns=table_settings.on_dropped_column == "drop",
        has_rows=mirror.head is not None,
        keeps_defaults=metadata.format_version >= 3,
        followed={field.field_id: field for field in nested_fields(followed_schema.as_struct())}
        if followed_schema
        else None,
        dropped_fields=_dropped_fields(changelog, mirror.field_map),
    )


def _dropped_fields(changelog: TableMetadata, field_map: FieldMap) -> dict[int, NestedField]:
    """Return fields that the mirror has and the changelog dropped, as the changelog had them last."""
    dropped_ids = set(field_map) - set(field_ids(changelog.schema().as_struct()))
    if not dropped_ids:
        return {}
    fields: dict[int, NestedField] = {}
    for schema in sorted(changelog.schemas, key=lambda schema: schema.schema_id, reverse=True):
        new_ids = dropped_ids.intersection(field_ids(schema.as_struct())) - fields.keys()
        fields |= {field_id: schema.find_field(field_id) for field_id in new_ids}
    return fields


def _changed_properties(
    table_settings: TableSettings,
    changelog: Table,
    mirror: Mirror,
    evolved: EvolvedColumns,
    merged_schema: MergedSchema,
) -> dict[str, str]:
    """Return the mirror's properties that the evolution changes."""
    current_properties = mirror.table.metadata.properties
    next_properties = {
        PROPERTY_SOURCE: f"{table_settings.changelog_id} {changelog.metadata.table_uuid}",
        PROPERTY_SOURCE_SCHEMA: merged_schema.model_dump_json(by_alias=True),
    }
    if follows_changelog(mirror.table, changelog.metadata):
        del next_properties[PROPERTY_SOURCE]
    if load_field_map(current_properties[PROPERTY_FIELD_MAP]) != evolved.field_map:
        next_properties[PROPERTY_FIELD_MAP] = dump_field_map(evolved.field_map)
    return {name: text for name, text in next_properties.items() if current_properties.get(name) != text}


def _changed_comment(
    table_settings: TableSettings, previous: MergedSchema | None, current: MergedSchema
) -> dict[str, str]:
    """Return the changelog's table comment if it changed; a comment in the settings takes precedence."""
    if _COMMENT in table_settings.table_properties or current.comment == (
        previous.comment if previous else None
    ):
        return {}
    return {_COMMENT: current.comment or ""}


def _catalog_limits(catalog: Catalog) -> Iterator[str]:
    """Yield why the catalog cannot change a schema.

    Nessie requires `last-column-id` with a schema, which the specification dropped and PyIceberg omits.
    """
    if catalog.properties.get(_IS_NESSIE) == "true":
        yield "Nessie does not accept schema changes from PyIceberg"


def _partition_name_clashes(specs: Mapping[int, PartitionSpec], schema: Schema) -> Iterator[str]:
    """Describe columns with the name of a partition field of another column: engines refuse such a table."""
    names = {field.name: field.field_id for field in schema.fields}
    for spec in specs.values():
        for partition in spec.fields:
            keeps_name = isinstance(partition.transform, IdentityTransform | VoidTransform)
            if partition.name in names and not (keeps_name and names[partition.name] == partition.source_id):
                yield f"column {partition.name} would have the name of a partition field of the mirror"
