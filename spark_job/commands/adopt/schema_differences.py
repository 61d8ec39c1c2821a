"""Describes how the columns of a table differ from those of the changelog."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from spark_job.columns.field_map import FieldMap


def describe_schema_differences(
    changelog: Schema, row_ids: tuple[int, ...], mirror_schema: Schema, field_map: FieldMap
) -> tuple[str, ...]:
    """Return how the row's columns in the changelog differ from those of the mirror, as phrases.

    A mapped column that the mirror lacks is not described: `describe_foreign_changes` does that.
    """
    differences: list[str] = []
    mirror_fields = {field.field_id: field for field in mirror_schema.fields}
    for field in changelog.fields:
        if field.field_id not in row_ids:
            continue
        if field.field_id not in field_map:
            differences.append(f"new column {field.name} ({field.field_type})")
            continue
        if field_map[field.field_id] not in mirror_fields:
            continue
        mirror_field = mirror_fields[field_map[field.field_id]]
        if mirror_field.name != field.name:
            differences.append(f"column {mirror_field.name} renamed to {field.name}")
        mirror_ids = {mirror_id: mirror_id for mirror_id in field_map.values()}
        if _comparable_type(mirror_field.field_type, mirror_ids) != _comparable_type(
            field.field_type, field_map
        ):
            differences.append(
                f"column {field.name} changed from {mirror_field.field_type} to {field.field_type}"
            )
        is_key = mirror_field.field_id in mirror_schema.identifier_field_ids  # always required in the mirror
        if not is_key and _became_optional(mirror_field, field):
            differences.append(f"column {field.name} may now be NULL, or a part of it")
    changelog_ids = {field.field_id for field in changelog.fields}
    dropped_fields = [
        mirror_fields.get(mirror_id)
        for changelog_id, mirror_id in field_map.items()
        if changelog_id not in changelog_ids
    ]
    differences.extend(f"column {field.name} dropped" for field in dropped_fields if field is not None)
    return tuple(differences)


def _comparable_type(iceberg_type: IcebergType, field_map: FieldMap) -> object:
    """Return a comparable form of a type, with the mirror's ids: a field that was dropped and recreated differs."""
    match iceberg_type:
        case StructType():
            return [
                (field_map.get(field.field_id), field.name, _comparable_type(field.field_type, field_map))
                for field in iceberg_type.fields
            ]
        case ListType():
            return ("list", _comparable_type(iceberg_type.element_type, field_map))
        case MapType():
            return (
                "map",
                _comparable_type(iceberg_type.key_type, field_map),
                _comparable_type(iceberg_type.value_type, field_map),
            )
        case _:
            return str(iceberg_type)


def _became_optional(mirror_field: NestedField, changelog_field: NestedField) -> bool:
    """Return whether a field that the mirror requires, at any depth, is optional in the changelog."""
    if mirror_field.required and not changelog_field.required:
        return True
    pairs = zip(_children(mirror_field), _children(changelog_field), strict=False)
    return any(_became_optional(mirror_child, changelog_child) for mirror_child, changelog_child in pairs)


def _children(field: NestedField) -> tuple[NestedField, ...]:
    match field.field_type:
        case StructType() as nested_type:
            return nested_type.fields
        case ListType() as nested_type:
            return (nested_type.element_field,)
        case MapType() as nested_type:
            return (nested_type.key_field, nested_type.value_field)
        case _:
            return ()
