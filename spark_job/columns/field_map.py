"""Maps the changelog's field ids to the mirror's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

FieldMap = Mapping[int, int]


def mirror_schema(
    changelog: Schema, row_ids: tuple[int, ...], key_ids: tuple[int, ...]
) -> tuple[Schema, FieldMap]:
    """Return the schema of a new mirror and the field map: the row's columns with fresh ids, key columns required."""
    fields = [
        field.model_copy(update={"required": True}) if field.field_id in key_ids else field
        for field in changelog.fields
        if field.field_id in row_ids
    ]
    row_schema = Schema(*fields, identifier_field_ids=list(key_ids))
    fresh = assign_fresh_schema_ids(row_schema)
    return fresh, dict(zip(field_ids(row_schema.as_struct()), field_ids(fresh.as_struct()), strict=True))


def field_ids(iceberg_type: IcebergType) -> Iterator[int]:
    """Yield all field ids inside a type, in schema order."""
    match iceberg_type:
        case StructType():
            for field in iceberg_type.fields:
                yield field.field_id
                yield from field_ids(field.field_type)
        case ListType():
            yield iceberg_type.element_id
            yield from field_ids(iceberg_type.element_type)
        case MapType():
            yield iceberg_type.key_id
            yield iceberg_type.value_id
            yield from field_ids(iceberg_type.key_type)
            yield from field_ids(iceberg_type.value_type)
        case _:
            return


def nested_fields(iceberg_type: IcebergType) -> Iterator[NestedField]:
    """Yield all fields of structs inside a type, at any depth, in schema order."""
    match iceberg_type:
        case StructType():
            for field in iceberg_type.fields:
                yield field
                yield from nested_fields(field.field_type)
        case ListType():
            yield from nested_fields(iceberg_type.element_type)
        case MapType():
            yield from nested_fields(iceberg_type.key_type)
            yield from nested_fields(iceberg_type.value_type)


def with_assigned_ids(field_map: FieldMap, created_schema: Schema) -> FieldMap:
    """Return the map with the field ids that the catalog assigned to a new mirror: some catalogs use another order."""
    assigned_ids = list(field_ids(created_schema.as_struct()))
    return (
        dict(zip(field_map, assigned_ids, strict=True)) if len(assigned_ids) == len(field_map) else field_map
    )


def dump_field_map(field_map: FieldMap) -> str:
    """Return a map as text for the mirror's properties."""
    return json.dumps({str(changelog_id): mirror_id for changelog_id, mirror_id in field_map.items()})


def load_field_map(text: str) -> FieldMap:
    """Return the map in a text of `dump_field_map`."""
    return {int(changelog_id): mirror_id for changelog_id, mirror_id in json.loads(text).items()}
