"""Which columns of a changelog a mirror has, and their names: the settings `columns` and `name_case`."""

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
from spark_job.changelog.resolve_shape import resolve_shape
from spark_job.changelog.shape import ChangelogShape
from spark_job.iceberg.merged_schema import MergedSchema, read_merged_schema
from spark_job.iceberg.mirror import SOURCE, Mirror


def row_shape(settings: TableSettings, changelog: Table, mirror: Mirror | None) -> ChangelogShape:
    """Return the shape of a changelog with only the row columns of its mirror, and the truncation that it followed."""
    metadata = changelog.metadata
    shape = resolve_shape(settings, changelog.schema(), metadata.last_column_id)
    merged_schema = merged_schema_for(mirror.table if mirror else None, metadata)
    named = frozenset(chain(*named_columns(settings, metadata, merged_schema).values()))
    all_ids = frozenset(field.field_id for field in changelog.schema().fields)
    source = mirror.cursor.source if mirror and mirror.cursor else None
    same = source is not None and source.uuid == str(metadata.table_uuid)
    return replace(
        shape,
        row_ids=_included(settings, changelog.schema(), shape, named),
        excluded_ids=named if settings.columns.include is None else all_ids - named,
        followed_truncation=source.truncated if source and same else None,
    )


def merged_schema_for(mirror: Table | None, changelog: TableMetadata) -> MergedSchema | None:
    """Return the changelog's schema that the mirror has followed; None if it followed an earlier changelog."""
    if mirror is None or not follows_changelog(mirror, changelog):
        return None
    return read_merged_schema(mirror.metadata.properties)


def follows_changelog(mirror: Table, changelog: TableMetadata) -> bool:
    """Return whether the mirror's field map belongs to this changelog."""
    return mirror.metadata.properties.get(SOURCE, "").endswith(str(changelog.table_uuid))


def named_columns(
    settings: TableSettings, changelog: TableMetadata, merged_schema: MergedSchema | None
) -> dict[str, tuple[int, ...]]:
    """Return the field ids of the columns that the setting `columns` names.

    A name means the column that had it when it was first used, even if it was renamed, and the column that has it now.
    """
    known = merged_schema.named if merged_schema else {}
    named: dict[str, tuple[int, ...]] = {}
    for name in (*(settings.columns.include or ()), *settings.columns.exclude):
        current = _id_of(changelog.schema(), name)
        ids = {*known.get(name, ()), *(() if current is None else (current,))}
        named[name] = tuple(sorted(ids)) or (_formerly_named(settings, changelog, name),)
    return named


def _id_of(schema: Schema, name: str) -> int | None:
    return next((field.field_id for field in schema.fields if field.name == name), None)


def _formerly_named(settings: TableSettings, changelog: TableMetadata, name: str) -> int:
    """Return the column that had this name before; refuse an unknown name: a typo would expose values."""
    for schema in sorted(changelog.schemas, key=lambda schema: schema.schema_id, reverse=True):
        found = _id_of(schema, name)
        if found is not None:
            return found
    names = [field.name for field in changelog.schema().fields]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"its columns are {', '.join(names[:20])}."
    raise Invalid(
        f"{settings.name}: columns names {name}, but the changelog {settings.changelog_id} has no column {name}; "
        f"{hint} Correct columns."
    )


def _included(
    settings: TableSettings, schema: Schema, shape: ChangelogShape, named: frozenset[int]
) -> tuple[int, ...]:
    if settings.columns.include is not None:
        return tuple(column for column in shape.row_ids if column in named or column in shape.key_ids)
    for field in schema.fields:
        if field.field_id in named and field.field_id in shape.key_ids:
            raise Invalid(
                f"{settings.name}: column {field.name} is part of the key and cannot be excluded from the mirror "
                "(columns: exclude)"
            )
    return tuple(column for column in shape.row_ids if column not in named)


def row_schema(settings: TableSettings, changelog: Schema, row_ids: Sequence[int]) -> Schema:
    """Return the row's columns with the changelog's field ids and the mirror's names."""
    fields = [field for field in changelog.fields if field.field_id in row_ids]
    if settings.name_case != "lower":
        return Schema(*fields)
    lowered = [_lower(field) for field in fields]
    clashes = list(_clashes("", lowered, fields))
    if clashes:
        raise Invalid(
            f"{settings.changelog_id}: {'; '.join(clashes)} (name_case of {settings.name} is lower). Rename one, or "
            "exclude it with columns: exclude."
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
            clashing = [field.name for field in fields if field.name.lower() == name]
            yield f"columns {' and '.join(clashing)}{within} would have the same name"
    for field in fields:
        for struct in _nested_structs(field.field_type):
            nested = [_lower(child) for child in struct.fields]
            yield from _clashes(f" in {field.name}", nested, struct.fields)


def _nested_structs(kind: IcebergType) -> Iterator[StructType]:
    """Yield the outermost structs inside a type."""
    match kind:
        case StructType():
            yield kind
        case ListType():
            yield from _nested_structs(kind.element_type)
        case MapType():
            yield from _nested_structs(kind.key_type)
            yield from _nested_structs(kind.value_type)
