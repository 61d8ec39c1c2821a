"""The map from a changelog's field ids to the mirror's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import IcebergType, ListType, MapType, StructType

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
    return fresh, dict(zip(_ids(source.as_struct()), _ids(fresh.as_struct()), strict=True))


def _ids(kind: IcebergType) -> Iterator[int]:
    """All field ids below a type, in the order of the schema."""
    match kind:
        case StructType():
            for field in kind.fields:
                yield field.field_id
                yield from _ids(field.field_type)
        case ListType():
            yield kind.element_id
            yield from _ids(kind.element_type)
        case MapType():
            yield kind.key_id
            yield kind.value_id
            yield from _ids(kind.key_type)
            yield from _ids(kind.value_type)
        case _:
            return


def dump_map(ids: FieldMap) -> str:
    """As it is kept in the mirror's properties."""
    return json.dumps({str(source): target for source, target in ids.items()})


def load_map(text: str) -> FieldMap:
    """The inverse of `dump_map`."""
    return {int(source): target for source, target in json.loads(text).items()}


def schema_changes(
    changelog: Schema, row_ids: tuple[int, ...], mirror: Schema, ids: FieldMap
) -> tuple[str, ...]:
    """How the row's columns in the changelog differ from the mirror's, in words."""
    changes: list[str] = []
    for field in changelog.fields:
        if field.field_id not in row_ids:
            continue
        if field.field_id not in ids:
            changes.append(f"new column {field.name} ({field.field_type})")
            continue
        there = mirror.find_field(ids[field.field_id])
        if there.name != field.name:
            changes.append(f"column {there.name} renamed to {field.name}")
        if str(_type_names(there.field_type)) != str(_type_names(field.field_type)):
            changes.append(f"column {field.name} changed from {there.field_type} to {field.field_type}")
    present = {field.field_id for field in changelog.fields}
    top_level = {ids[source] for source in ids if source in present}
    changes.extend(
        f"column {field.name} dropped" for field in mirror.fields if field.field_id not in top_level
    )
    return tuple(changes)


def _type_names(kind: IcebergType) -> object:
    """The shape of a type without its ids."""
    match kind:
        case StructType():
            return [(field.name, _type_names(field.field_type)) for field in kind.fields]
        case ListType():
            return ["list", _type_names(kind.element_type)]
        case MapType():
            return ["map", _type_names(kind.key_type), _type_names(kind.value_type)]
        case _:
            return str(kind)
