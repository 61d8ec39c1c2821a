"""Which columns of a changelog a mirror has, and what they are called there: the settings `columns` and `name_case`."""

from __future__ import annotations

import difflib
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
from spark_job.changelog.shape import ChangelogShape, resolve_shape
from spark_job.iceberg.mirror import SOURCE, Mirror
from spark_job.schema_changes.schema_note import SchemaNote, read_note


def row_shape(settings: TableSettings, changelog: Table, mirror: Mirror | None) -> ChangelogShape:
    """The columns of a changelog, of the row only those that its mirror has; and what that knows of truncations."""
    metadata = changelog.metadata
    shape = resolve_shape(settings, changelog.schema(), metadata.last_column_id)
    note = note_of(mirror.table if mirror else None, metadata)
    named = frozenset(chain(*named_columns(settings, metadata, note).values()))
    every = frozenset(field.field_id for field in changelog.schema().fields)
    source = mirror.cursor.source if mirror and mirror.cursor else None
    same = source is not None and source.uuid == str(metadata.table_uuid)
    return replace(
        shape,
        row_ids=_chosen(settings, changelog.schema(), shape, named),
        left_out=named if settings.columns.include is None else every - named,
        truncated=source.truncated if source and same else None,
    )


def note_of(mirror: Table | None, changelog: TableMetadata) -> SchemaNote | None:
    """What a mirror notes of this changelog, and not of one that was there before."""
    if mirror is None or not follows(mirror, changelog):
        return None
    return read_note(mirror.metadata.properties)


def follows(mirror: Table, changelog: TableMetadata) -> bool:
    """Whether the field ids that the mirror knows are those of this changelog."""
    return mirror.metadata.properties.get(SOURCE, "").endswith(str(changelog.table_uuid))


def named_columns(
    settings: TableSettings, changelog: TableMetadata, note: SchemaNote | None
) -> dict[str, tuple[int, ...]]:
    """Field ids of the columns that the setting `columns` names.

    A column that was renamed since stays the one that was meant; one that has the name by now is meant, too.
    """
    known = note.named if note else {}
    named: dict[str, tuple[int, ...]] = {}
    for name in (*(settings.columns.include or ()), *settings.columns.exclude):
        now = _id_of(changelog.schema(), name)
        ids = {*known.get(name, ()), *(() if now is None else (now,))}
        named[name] = tuple(sorted(ids)) or (_once_called(settings, changelog, name),)
    return named


def _id_of(schema: Schema, name: str) -> int | None:
    return next((field.field_id for field in schema.fields if field.name == name), None)


def _once_called(settings: TableSettings, changelog: TableMetadata, name: str) -> int:
    """The column that had this name before; refuses one that never was: a slip would let values through."""
    for schema in sorted(changelog.schemas, key=lambda one: one.schema_id, reverse=True):
        found = _id_of(schema, name)
        if found is not None:
            return found
    names = [field.name for field in changelog.schema().fields]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(names[:20])}"
    raise Invalid(f"{settings.changelog_id}: has no column {name} (columns of {settings.name}){hint}")


def _chosen(
    settings: TableSettings, schema: Schema, shape: ChangelogShape, named: frozenset[int]
) -> tuple[int, ...]:
    if settings.columns.include is not None:
        return tuple(one for one in shape.row_ids if one in named or one in shape.key_ids)
    for field in schema.fields:
        if field.field_id in named and field.field_id in shape.key_ids:
            raise Invalid(
                f"{settings.name}: column {field.name} is part of the key, and cannot be left out of the mirror "
                "(columns: exclude)"
            )
    return tuple(one for one in shape.row_ids if one not in named)


def row_schema(settings: TableSettings, changelog: Schema, row_ids: Sequence[int]) -> Schema:
    """The row's columns with the changelog's field ids, as the mirror calls them."""
    fields = [field for field in changelog.fields if field.field_id in row_ids]
    if settings.name_case != "lower":
        return Schema(*fields)
    lowered = [_lower(field) for field in fields]
    clashes = list(_clashes("", lowered, fields))
    if clashes:
        raise Invalid(
            f"{settings.changelog_id}: {'; '.join(clashes)} (name_case of {settings.name} is lower). Rename one, or "
            "leave it out with columns: exclude."
        )
    return Schema(*lowered)


def _lower(field: NestedField) -> NestedField:
    update = {"name": field.name.lower(), "field_type": _lowered(field.field_type)}
    return field.model_copy(update=update)


def _lowered(kind: IcebergType) -> IcebergType:
    match kind:
        case StructType():
            return StructType(*(_lower(field) for field in kind.fields))
        case ListType():
            return ListType(kind.element_id, _lowered(kind.element_type), kind.element_required)
        case MapType():
            key, value = _lowered(kind.key_type), _lowered(kind.value_type)
            return MapType(kind.key_id, key, kind.value_id, value, kind.value_required)
        case _:
            return kind


def _clashes(within: str, lowered: Sequence[NestedField], fields: Sequence[NestedField]) -> Iterator[str]:
    counts = Counter(field.name for field in lowered)
    for name, count in counts.items():
        if count > 1:
            alike = [field.name for field in fields if field.name.lower() == name]
            yield f"columns {' and '.join(alike)}{within} would have one name"
    for field in fields:
        for below in structs_below(field.field_type):
            inside = [_lower(one) for one in below.fields]
            yield from _clashes(f" in {field.name}", inside, below.fields)


def structs_below(kind: IcebergType) -> Iterator[StructType]:
    """The next structs inside of a type."""
    match kind:
        case StructType():
            yield kind
        case ListType():
            yield from structs_below(kind.element_type)
        case MapType():
            yield from structs_below(kind.key_type)
            yield from structs_below(kind.value_type)
