"""Plan the changes of a mirror's columns that a commit needs for its rows."""

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
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from icemirror.errors import Transient
from icemirror.settings import TableSettings
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.added_columns import added_column_names, arrange_added_columns
from spark_job.columns.field_map import FieldMap, dump_field_map, field_ids, load_field_map
from spark_job.iceberg.merged_schema import SOURCE_SCHEMA, MergedSchema, assign_schema_id, read_merged_schema
from spark_job.iceberg.mirror import FIELD_MAP, SOURCE, Mirror
from spark_job.iceberg.parquet_options import renamed_properties
from spark_job.plan.evolve_columns import EvolutionRules, EvolvedColumns, evolve_columns
from spark_job.plan.match_names import match_by_name_and_type
from spark_job.plan.row_columns import follows_changelog, merged_schema_for, named_columns, row_schema

_IS_NESSIE = "nessie.is-nessie-catalog"  # in the configuration that Nessie returns
_COMMENT = "comment"  # the table property in which engines store a table's description


@dataclass(frozen=True)
class SchemaEvolution:
    """The next columns of a mirror. `schema` becomes its current one; None: it stays.

    `changes` and `remarks` describe the differences, `refused` those that cannot be followed. `foreign_changes`: what
    other writers changed in the mirror's columns. `metadata_columns`: role → field id.
    """

    schema: Schema | None
    field_map: FieldMap
    properties: Mapping[str, str]
    changes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    foreign_changes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    metadata_columns: Mapping[str, int] = field(default_factory=dict)

    def applied(self, metadata: TableMetadata) -> TableMetadata:
        """Return the mirror's metadata after the evolution, for writing its files."""
        schema = self.schema
        if schema is None:
            return metadata
        others = [known for known in metadata.schemas if known.schema_id != schema.schema_id]
        update = {"schemas": [*others, schema], "current_schema_id": schema.schema_id}
        return metadata.model_copy(update=update)


def with_field_map(
    settings: TableSettings, changelog: Table, shape: ChangelogShape, mirror: Mirror
) -> Mirror:
    """Return the mirror with a field map for this changelog: a recreated one has other field ids."""
    if follows_changelog(mirror.table, changelog.metadata):
        return mirror
    row = row_schema(settings, changelog.schema(), shape.row_ids)
    metadata_columns = known_metadata_columns(mirror.table.metadata).values()
    columns = Schema(
        *(field for field in mirror.table.schema().fields if field.field_id not in metadata_columns)
    )
    return replace(mirror, field_map=match_by_name_and_type(row, columns))


def is_merged_from(mirror: Mirror, changelog: Table) -> bool:
    """Return whether the mirror is empty or was merged from this changelog, not from an earlier one."""
    return mirror.cursor is None or mirror.cursor.source.uuid == str(changelog.metadata.table_uuid)


def plan_evolution(
    settings: TableSettings, changelog: Table, shape: ChangelogShape, mirror: Mirror
) -> SchemaEvolution:
    """Plan the columns that the mirror needs for rows of the changelog as it is now."""
    metadata, before = mirror.table.metadata, mirror.table.schema()
    merged_schema = merged_schema_for(mirror.table, changelog.metadata)
    if merged_schema is not None:
        _require_fresh(settings, changelog.metadata, merged_schema)
    row = row_schema(settings, changelog.schema(), shape.row_ids)
    rules = _rules(settings, changelog.metadata, shape, mirror, merged_schema)
    evolved = evolve_columns(row, before, mirror.field_map, metadata.last_column_id, rules)
    arranged = arrange_added_columns(
        evolved.fields,
        added_column_names(settings),
        known_metadata_columns(metadata),
        max(metadata.last_column_id, *field_ids(StructType(*evolved.fields))),
        rules.pinned,
    )
    after = before
    if arranged.fields != before.fields and not arranged.refused:
        schema = Schema(*arranged.fields, identifier_field_ids=before.identifier_field_ids)
        after = assign_schema_id(metadata, schema)
    next_merged_schema = MergedSchema(
        changelog_schema=changelog.metadata.current_schema_id,
        newest_schema=_newest(changelog.metadata),
        mirror_schema=after.schema_id,
        comment=changelog.metadata.properties.get(_COMMENT),
        named=named_columns(settings, changelog.metadata, merged_schema),
        dropped=evolved.dropped,
        own=dict(arranged.ids),
    )
    changed_comment = _changed_comment(settings, merged_schema, next_merged_schema)
    return SchemaEvolution(
        schema=None if after is before else after,
        field_map=evolved.field_map,
        properties={
            **(renamed_properties(before, after, metadata.properties) if after is not before else {}),
            **_properties(settings, changelog, mirror, evolved, next_merged_schema),
            **changed_comment,
        },
        changes=evolved.changes,
        remarks=(
            *evolved.remarks,
            *arranged.remarks,
            *("comment of the table changed" for _ in changed_comment),
        ),
        foreign_changes=_find_foreign_changes(row, changelog.metadata, mirror),
        metadata_columns=arranged.ids,
        refused=(
            *evolved.refused,
            *arranged.refused,
            *(
                ()
                if after is before
                else (*_clashes(metadata.specs(), after), *_unsupported_by(mirror.table.catalog))
            ),
        ),
    )


def known_metadata_columns(mirror: TableMetadata) -> Mapping[str, int]:
    """Return the field ids of the mirror's metadata columns by kind, for any changelog."""
    merged_schema = read_merged_schema(mirror.properties)
    return merged_schema.own if merged_schema else {}


def preview_evolution(
    settings: TableSettings, changelog: Table, shape: ChangelogShape, mirror: Mirror
) -> Mirror:
    """Return the mirror with the columns of its next commit, to read rows that are not merged yet."""
    evolution = plan_evolution(settings, changelog, shape, mirror)
    if evolution.refused or evolution.foreign_changes:
        return mirror
    table = copy(mirror.table)
    table.metadata = evolution.applied(table.metadata)
    return replace(mirror, table=table, field_map=evolution.field_map)


def _find_foreign_changes(row: Schema, changelog: TableMetadata, mirror: Mirror) -> tuple[str, ...]:
    """Describe changes by other writers; none if the changelog was recreated and the schema is unknown."""
    metadata, current = mirror.table.metadata, mirror.table.schema()
    merged_schema = read_merged_schema(metadata.properties)
    if merged_schema is not None and merged_schema.mirror_schema == current.schema_id:
        return ()
    last_committed = metadata.schema_by_id(merged_schema.mirror_schema) if merged_schema else None
    if last_committed is None and not follows_changelog(mirror.table, changelog):
        return ()
    return describe_foreign_changes(row, current, mirror.field_map, last_committed)


def initial_merged_schema(
    settings: TableSettings, changelog: Table, mirror: Schema, metadata_columns: Mapping[str, int]
) -> str:
    """Return the property `icemirror.source-schema` of a table that becomes the mirror as it is."""
    metadata = changelog.metadata
    merged_schema = MergedSchema(
        changelog_schema=metadata.current_schema_id,
        newest_schema=_newest(metadata),
        mirror_schema=mirror.schema_id,
        comment=metadata.properties.get(_COMMENT),
        named=named_columns(settings, metadata, None),
        own=dict(metadata_columns),
    )
    return merged_schema.model_dump_json()


def _require_fresh(settings: TableSettings, changelog: TableMetadata, merged_schema: MergedSchema) -> None:
    """Refuse a stale response: a cache or replica may return the changelog before a change that the mirror followed."""
    if _newest(changelog) < merged_schema.newest_schema:
        raise Transient(
            f"{settings.changelog_id}: the catalog returned a state before schema {merged_schema.newest_schema}, which "
            "the mirror has followed; a later attempt may return a newer one."
        )


def _newest(changelog: TableMetadata) -> int:
    return max(schema.schema_id for schema in changelog.schemas)


def _rules(
    settings: TableSettings,
    changelog: TableMetadata,
    shape: ChangelogShape,
    mirror: Mirror,
    merged_schema: MergedSchema | None,
) -> EvolutionRules:
    metadata = mirror.table.metadata
    sources = [field.source_id for spec in metadata.partition_specs for field in spec.fields]
    sources += [field.source_id for order in metadata.sort_orders for field in order.fields]
    current = {field.field_id for field in changelog.schema().fields}
    named = named_columns(settings, changelog, merged_schema)
    excluded = {field_id for name in settings.columns.exclude for field_id in named[name]}
    base = changelog.schema_by_id(merged_schema.changelog_schema) if merged_schema else None
    return EvolutionRules(
        key_ids=frozenset(shape.key_ids),
        pinned=frozenset(sources),
        excluded=frozenset((current - set(shape.row_ids)) | excluded),
        known_dropped=frozenset(merged_schema.dropped if merged_schema else ()),
        drops_columns=settings.on_dropped_column == "drop",
        has_rows=mirror.head is not None,
        keeps_defaults=metadata.format_version >= 3,
        followed={field.field_id: field for field in _all_fields(base.as_struct())} if base else None,
        dropped_fields=_dropped_fields(changelog, mirror.field_map),
    )


def _dropped_fields(changelog: TableMetadata, ids: FieldMap) -> dict[int, NestedField]:
    """Return fields that the mirror has and the changelog dropped, as the changelog had them last."""
    missing = set(ids) - set(field_ids(changelog.schema().as_struct()))
    found: dict[int, NestedField] = {}
    for schema in (
        sorted(changelog.schemas, key=lambda schema: schema.schema_id, reverse=True) if missing else ()
    ):
        present = missing.intersection(field_ids(schema.as_struct())) - found.keys()
        found |= {field_id: schema.find_field(field_id) for field_id in present}
    return found


def _all_fields(kind: IcebergType) -> Iterator[NestedField]:
    match kind:
        case StructType():
            for child in kind.fields:
                yield child
                yield from _all_fields(child.field_type)
        case ListType():
            yield from _all_fields(kind.element_type)
        case MapType():
            yield from _all_fields(kind.key_type)
            yield from _all_fields(kind.value_type)


def _properties(
    settings: TableSettings,
    changelog: Table,
    mirror: Mirror,
    evolved: EvolvedColumns,
    merged_schema: MergedSchema,
) -> dict[str, str]:
    """Return the changed properties of the mirror."""
    current = mirror.table.metadata.properties
    wanted = {
        SOURCE: f"{settings.changelog_id} {changelog.metadata.table_uuid}",
        SOURCE_SCHEMA: merged_schema.model_dump_json(),
    }
    if follows_changelog(mirror.table, changelog.metadata):
        del wanted[SOURCE]
    if load_field_map(current[FIELD_MAP]) != evolved.field_map:
        wanted[FIELD_MAP] = dump_field_map(evolved.field_map)
    return {name: text for name, text in wanted.items() if current.get(name) != text}


def _changed_comment(
    settings: TableSettings, before: MergedSchema | None, after: MergedSchema
) -> dict[str, str]:
    """Return the changelog's table comment if it changed; a comment in the settings takes precedence."""
    if _COMMENT in settings.table_properties or after.comment == (before.comment if before else None):
        return {}
    return {_COMMENT: after.comment or ""}


def _unsupported_by(catalog: Catalog) -> Iterator[str]:
    """Nessie requires `last-column-id` with a schema, which the specification dropped and PyIceberg omits."""
    if catalog.properties.get(_IS_NESSIE) == "true":
        yield "Nessie does not accept schema changes from PyIceberg"


def _clashes(specs: Mapping[int, PartitionSpec], schema: Schema) -> Iterator[str]:
    """Describe columns with the name of a partition field of another column: engines refuse such a table."""
    names = {field.name: field.field_id for field in schema.fields}
    for spec in specs.values():
        for partition in spec.fields:
            same = isinstance(partition.transform, IdentityTransform | VoidTransform)
            if partition.name in names and not (same and names[partition.name] == partition.source_id):
                yield f"column {partition.name} would have the name of a partition field of the mirror"


def describe_foreign_changes(
    changelog: Schema, mirror: Schema, ids: FieldMap, last_committed: Schema | None = None
) -> tuple[str, ...]:
    """Describe how other writers changed the mirror's fields, at any depth: a merge refuses to guess their intent.

    `last_committed`: the schema of icemirror's last commit, if known. Other writers may change comments, and drop a
    column that the changelog has dropped.
    """
    present = set(field_ids(mirror.as_struct()))
    known_ids = {*ids.values(), *(field_ids(last_committed.as_struct()) if last_committed else ())}
    added = [mirror.find_column_name(field_id) for field_id in sorted(present - known_ids)]
    dropped = [
        changelog.find_column_name(source)
        for source, target in ids.items()
        if target not in present and changelog.find_column_name(source) is not None
    ]
    changed = _changed(last_committed, mirror) if last_committed else ()
    return (
        *(f"column {name} dropped" for name in dropped),
        *(f"column {name} added" for name in added),
        *changed,
    )


def _changed(last_committed: Schema, mirror: Schema) -> Iterator[str]:
    present = set(field_ids(mirror.as_struct()))
    for field_id in field_ids(last_committed.as_struct()):
        if field_id in present:
            yield from _differences(
                last_committed.find_column_name(field_id) or "",
                last_committed.find_field(field_id),
                mirror.find_field(field_id),
            )


def _differences(name: str, before: NestedField, after: NestedField) -> Iterator[str]:
    if before.name != after.name:
        yield f"column {name} renamed to {after.name}"
    if before.field_type.is_primitive and before.field_type != after.field_type:
        yield f"column {name} changed from {before.field_type} to {after.field_type}"
    if after.required and not before.required:
        yield f"column {name} made required"
