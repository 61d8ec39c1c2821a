"""The map from a changelog's field ids to the mirror's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

FieldMap = Mapping[int, int]


def mirror_schema(
    changelog: Schema, row_ids: tuple[int, ...], key_ids: tuple[int, ...]
) -> tuple[Schema, FieldMap]:
    """The schema of a new mirror: the row's columns with fresh ids, the key required; and the map to it."""
    fields = [
        field.model_copy(update={"required": True}) if field.field_id in key_ids else field
        for field in changelog.fields
        if field.field_id in row_ids
    ]
    source = Schema(*fields, identifier_field_ids=list(key_ids))
    fresh = assign_fresh_schema_ids(source)
    return fresh, dict(zip(field_ids(source.as_struct()), field_ids(fresh.as_struct()), strict=True))


def field_ids(kind: IcebergType) -> Iterator[int]:
    """All field ids below a type, in the order of the schema."""
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
    """The map to the ids that a catalog gave the fields of a new mirror: some number them in an order of their own."""
    given = list(field_ids(mirror.as_struct()))
    return dict(zip(ids, given, strict=True)) if len(given) == len(ids) else ids


def dump_map(ids: FieldMap) -> str:
    """As it is kept in the mirror's properties."""
    return json.dumps({str(source): target for source, target in ids.items()})


def load_map(text: str) -> FieldMap:
    """The inverse of `dump_map`."""
    return {int(source): target for source, target in json.loads(text).items()}


def schema_changes(
    changelog: Schema, row_ids: tuple[int, ...], mirror: Schema, ids: FieldMap
) -> tuple[str, ...]:
    """How the row's columns in the changelog differ from what the mirror was made of, in words."""
    changes: list[str] = []
    fields = {field.field_id: field for field in mirror.fields}
    for field in changelog.fields:
        if field.field_id not in row_ids:
            continue
        if field.field_id not in ids:
            changes.append(f"new column {field.name} ({field.field_type})")
            continue
        if ids[field.field_id] not in fields:
            continue  # of that `mirror_changes` tells
        there = fields[ids[field.field_id]]
        if there.name != field.name:
            changes.append(f"column {there.name} renamed to {field.name}")
        same = {target: target for target in ids.values()}
        if _outline(there.field_type, same) != _outline(field.field_type, ids):
            changes.append(f"column {field.name} changed from {there.field_type} to {field.field_type}")
        key = there.field_id in mirror.identifier_field_ids  # always required in the mirror
        if not key and _loosened(there, field):
            changes.append(f"column {field.name} may now be NULL, or a part of it")
    present = {field.field_id for field in changelog.fields}
    dropped = [fields.get(target) for source, target in ids.items() if source not in present]
    changes.extend(f"column {field.name} dropped" for field in dropped if field is not None)
    return tuple(changes)


def _outline(kind: IcebergType, ids: FieldMap) -> object:
    """A type with the mirror's ids of its nested fields: one that was dropped and made anew is another field."""
    match kind:
        case StructType():
            return [
                (ids.get(field.field_id), field.name, _outline(field.field_type, ids))
                for field in kind.fields
            ]
        case ListType():
            return ("list", _outline(kind.element_type, ids))
        case MapType():
            return ("map", _outline(kind.key_type, ids), _outline(kind.value_type, ids))
        case _:
            return str(kind)


def _loosened(there: NestedField, here: NestedField) -> bool:
    """Whether something that the mirror requires may be NULL in the changelog."""
    if there.required and not here.required:
        return True
    return any(_loosened(one, other) for one, other in zip(_below(there), _below(here), strict=False))


def _below(field: NestedField) -> tuple[NestedField, ...]:
    match field.field_type:
        case StructType() as kind:
            return kind.fields
        case ListType() as kind:
            return (kind.element_field,)
        case MapType() as kind:
            return (kind.key_field, kind.value_field)
        case _:
            return ()
