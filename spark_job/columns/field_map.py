"""Maps the changelog's field ids to the mirror's, and describes how the two schemas differ."""

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
    source = Schema(*fields, identifier_field_ids=list(key_ids))
    fresh = assign_fresh_schema_ids(source)
    return fresh, dict(zip(field_ids(source.as_struct()), field_ids(fresh.as_struct()), strict=True))


def field_ids(kind: IcebergType) -> Iterator[int]:
    """Yield all field ids inside a type, in schema order."""
    match kind:
        case StructType():
            for field in kind.fields:
                yield field.field_id
                yield from field_ids(field.field_type)
        case ListType():
            yield kind.element_id
            yield from field_ids(kind.element_type)
        case MapType():
            yield kind.key_id
            yield kind.value_id
            yield from field_ids(kind.key_type)
            yield from field_ids(kind.value_type)
        case _:
            return


def renumber(ids: FieldMap, mirror: Schema) -> FieldMap:
    """Return the map to the field ids that the catalog assigned to a new mirror: some catalogs use another order."""
    given = list(field_ids(mirror.as_struct()))
    return dict(zip(ids, given, strict=True)) if len(given) == len(ids) else ids


def dump_field_map(ids: FieldMap) -> str:
    """Serialize a map for the mirror's properties."""
    return json.dumps({str(source): target for source, target in ids.items()})


def load_field_map(text: str) -> FieldMap:
    """Parse the result of `dump_field_map`."""
    return {int(source): target for source, target in json.loads(text).items()}


def schema_changes(
    changelog: Schema, row_ids: tuple[int, ...], mirror: Schema, ids: FieldMap
) -> tuple[str, ...]:
    """Describe how the row's columns in the changelog differ from those of the mirror."""
    changes: list[str] = []
    fields = {field.field_id: field for field in mirror.fields}
    for field in changelog.fields:
        if field.field_id not in row_ids:
            continue
        if field.field_id not in ids:
            changes.append(f"new column {field.name} ({field.field_type})")
            continue
        if ids[field.field_id] not in fields:
            continue  # `mirror_changes` describes this case
        mirrored = fields[ids[field.field_id]]
        if mirrored.name != field.name:
            changes.append(f"column {mirrored.name} renamed to {field.name}")
        same = {target: target for target in ids.values()}
        if _comparable_type(mirrored.field_type, same) != _comparable_type(field.field_type, ids):
            changes.append(f"column {field.name} changed from {mirrored.field_type} to {field.field_type}")
        is_key = mirrored.field_id in mirror.identifier_field_ids  # always required in the mirror
        if not is_key and _became_optional(mirrored, field):
            changes.append(f"column {field.name} may now be NULL, or a part of it")
    present = {field.field_id for field in changelog.fields}
    dropped = [fields.get(target) for source, target in ids.items() if source not in present]
    changes.extend(f"column {field.name} dropped" for field in dropped if field is not None)
    return tuple(changes)


def _comparable_type(kind: IcebergType, ids: FieldMap) -> object:
    """Return a comparable form of a type, with the mirror's ids: a field that was dropped and recreated differs."""
    match kind:
        case StructType():
            return [
                (ids.get(field.field_id), field.name, _comparable_type(field.field_type, ids))
                for field in kind.fields
            ]
        case ListType():
            return ("list", _comparable_type(kind.element_type, ids))
        case MapType():
            return ("map", _comparable_type(kind.key_type, ids), _comparable_type(kind.value_type, ids))
        case _:
            return str(kind)


def _became_optional(mirrored: NestedField, source: NestedField) -> bool:
    """Whether a field that the mirror requires, at any depth, is optional in the changelog."""
    if mirrored.required and not source.required:
        return True
    pairs = zip(_children(mirrored), _children(source), strict=False)
    return any(_became_optional(mirrored_child, source_child) for mirrored_child, source_child in pairs)


def _children(field: NestedField) -> tuple[NestedField, ...]:
    match field.field_type:
        case StructType() as kind:
            return kind.fields
        case ListType() as kind:
            return (kind.element_field,)
        case MapType() as kind:
            return (kind.key_field, kind.value_field)
        case _:
            return ()
