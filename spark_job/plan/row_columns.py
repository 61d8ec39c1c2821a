"""Chooses the columns of a changelog that its mirror has, and their names: the settings `columns` and `name_case`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.changelog.cdc_columns import unknown_column
from spark_job.changelog.resolve_shape import resolve_shape
from spark_job.changelog.shape import ChangelogShape
from spark_job.iceberg.merged_schema import MergedSchema, known_metadata_columns, read_merged_schema
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.property_names import PROPERTY_SOURCE
from spark_job.plan.match_names import match_by_name_and_type


def row_shape(table_settings: TableSettings, changelog: Table, mirror: Mirror | None) -> ChangelogShape:
    """Return the shape of a changelog with only the row columns of its mirror, and the applied truncation."""
    metadata = changelog.metadata
    shape = resolve_shape(table_settings, changelog.schema(), metadata.last_column_id)
    merged_schema = merged_schema_for(mirror.table if mirror else None, metadata)
    named_ids = frozenset(chain(*named_columns(table_settings, metadata, merged_schema).values()))
    all_ids = frozenset(field.field_id for field in changelog.schema().fields)
    source = mirror.cursor.source if mirror and mirror.cursor else None
    merged_this_changelog = source is not None and source.uuid == str(metadata.table_uuid)
    return replace(
        shape,
        row_ids=_select_row_ids(table_settings, changelog.schema(), shape, named_ids),
        excluded_ids=named_ids if table_settings.columns.include is None else all_ids - named_ids,
        applied_truncation=source.truncated if source and merged_this_changelog else None,
    )


def merged_schema_for(mirror_table: Table | None, changelog: TableMetadata) -> MergedSchema | None:
    """Return the changelog's schema that the mirror has followed; None if it followed an earlier changelog."""
    if mirror_table is None or not follows_changelog(mirror_table, changelog):
        return None
    return read_merged_schema(mirror_table.metadata.properties)


def follows_changelog(mirror_table: Table, changelog: TableMetadata) -> bool:
    """Return whether the mirror's field map belongs to this changelog."""
    return mirror_table.metadata.properties.get(PROPERTY_SOURCE, "").endswith(str(changelog.table_uuid))


def is_merged_from(mirror: Mirror, changelog: Table) -> bool:
    """Return whether the mirror is empty or was merged from this changelog, not from an earlier one."""
    return mirror.cursor is None or mirror.cursor.source.uuid == str(changelog.metadata.table_uuid)


def named_columns(
    table_settings: TableSettings, changelog: TableMetadata, merged_schema: MergedSchema | None
) -> dict[str, tuple[int, ...]]:
    """Return the field ids of the columns that the setting `columns` names.

    A name selects the column that has it now, and the column that had it when the setting was first applied.
    """
    previous_ids = merged_schema.named if merged_schema else {}
    ids_by_name: dict[str, tuple[int, ...]] = {}
    for name in (*(table_settings.columns.include or ()), *table_settings.columns.exclude):
        current_id = _find_field_id(changelog.schema(), name)
        ids = {*previous_ids.get(name, ()), *(() if current_id is None else (current_id,))}
        ids_by_name[name] = tuple(sorted(ids)) or (_find_former_id(table_settings, changelog, name),)
    return ids_by_name


def _find_field_id(schema: Schema, name: str) -> int | None:
    return next((field.field_id for field in schema.fields if field.name == name), None)


def _find_former_id(table_settings: TableSettings, changelog: TableMetadata, name: str) -> int:
    """Return the id of the column that had this name last; refuse an unknown name: a typo would expose values."""
    for schema in sorted(changelog.schemas, key=lambda schema: schema.schema_id, reverse=True):
        field_id = _find_field_id(schema, name)
        if field_id is not None:
            return field_id
    raise unknown_column(table_settings, changelog.schema(), name, "columns")


def _select_row_ids(
    table_settings: TableSettings, schema: Schema, shape: ChangelogShape, named_ids: frozenset[int]
) -> tuple[int, ...]:
    if table_settings.columns.include is not None:
        return tuple(
            field_id for field_id in shape.row_ids if field_id in named_ids or field_id in shape.key_ids
        )
    for field in schema.fields:
        if field.field_id in named_ids and field.field_id in shape.key_ids:
            raise Invalid(
                f"{table_settings.name}: column {field.name} is part of the key and cannot be excluded from the mirror "
                "(columns: exclude)"
            )
    return tuple(field_id for field_id in shape.row_ids if field_id not in named_ids)


def row_schema(table_settings: TableSettings, changelog: Schema, row_ids: Sequence[int]) -> Schema:
    """Return the row's columns with the changelog's field ids and the mirror's names."""
    fields = [field for field in changelog.fields if field.field_id in row_ids]
    if table_settings.name_case != "lower":
        return Schema(*fields)
    lowered = [_lower_field(field) for field in fields]
    clashes = list(_describe_equal_names("", lowered, fields))
    if clashes:
        raise Invalid(
            f"{table_settings.changelog_id}: {'; '.join(clashes)} (name_case of {table_settings.name} is lower). "
            "Rename one, or exclude it with columns: exclude."
        )
    return Schema(*lowered)


def with_field_map(
    table_settings: TableSettings, changelog: Table, shape: ChangelogShape, mirror: Mirror
) -> Mirror:
    """Return the mirror with a field map for this changelog: a recreated one has other field ids."""
    if follows_changelog(mirror.table, changelog.metadata):
        return mirror
    row = row_schema(table_settings, changelog.schema(), shape.row_ids)
    metadata_columns = known_metadata_columns(mirror.table.metadata).values()
    columns = Schema(
        *(field for field in mirror.table.schema().fields if field.field_id not in metadata_columns)
    )
    return replace(mirror, field_map=match_by_name_and_type(row, columns))


def _lower_field(field: NestedField) -> NestedField:
    update = {"name": field.name.lower(), "field_type": _lower_type(field.field_type)}
    return field.model_copy(update=update)


def _lower_type(field_type: IcebergType) -> IcebergType:
    match field_type:
        case StructType():
            return StructType(*(_lower_field(field) for field in field_type.fields))
        case ListType():
            return ListType(
                field_type.element_id, _lower_type(field_type.element_type), field_type.element_required
            )
        case MapType():
            key, value = _lower_type(field_type.key_type), _lower_type(field_type.value_type)
            return MapType(field_type.key_id, key, field_type.value_id, value, field_type.value_required)
        case _:
            return field_type


def _describe_equal_names(
    parent: str, lowered: Sequence[NestedField], fields: Sequence[NestedField]
) -> Iterator[str]:
    suffix = f" in {parent}" if parent else ""
    counts = Counter(field.name for field in lowered)
    for name, count in counts.items():
        if count > 1:
            equal_names = [field.name for field in fields if field.name.lower() == name]
            yield f"columns {' and '.join(equal_names)}{suffix} would have the same name"
    for field in fields:
        for struct in _nested_structs(field.field_type):
            lowered_children = [_lower_field(child) for child in struct.fields]
            yield from _describe_equal_names(field.name, lowered_children, struct.fields)


def _nested_structs(field_type: IcebergType) -> Iterator[StructType]:
    """Yield the outermost structs inside a type."""
    match field_type:
        case StructType():
            yield field_type
        case ListType():
            yield from _nested_structs(field_type.element_type)
        case MapType():
            yield from _nested_structs(field_type.key_type)
            yield from _nested_structs(field_type.value_type)
