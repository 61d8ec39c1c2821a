"""Map a changelog's field ids to those of a table that was created independently, by field names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from icemirror.errors import Invalid
from spark_job.columns.field_map import FieldMap
from spark_job.plan.evolve_columns import can_promote


def match_by_name(name: str, changelog: Schema, row_ids: Sequence[int], table: Schema) -> FieldMap:
    """Return the map of the row's columns, with nested fields; refuse a table with other columns. Ignores types."""
    source = {field.name: field for field in changelog.fields if field.field_id in row_ids}
    target = {field.name: field for field in table.fields}
    missing = [column for column in source if column not in target]
    more = [column for column in target if column not in source]
    if missing or more:
        problems = [
            f"it lacks {', '.join(missing)}" if missing else "",
            f"it has {', '.join(more)}, which the changelog does not have" if more else "",
        ]
        raise Invalid(
            f"{name}: its columns are not those of the changelog: {'; '.join(filter(None, problems))}. "
            "Add or drop columns, so that both have the same names."
        )
    pairs = [pair for column, field in source.items() for pair in _pairs(field, target[column])]
    return dict(pairs)


def match_by_name_and_type(changelog: Schema, table: Schema) -> FieldMap:
    """Return the map of columns with the same name in both, if the changelog's type fits the table's."""
    target = {field.name: field for field in table.fields}
    both = [(field, target[field.name]) for field in changelog.fields if field.name in target]
    return dict(
        pair
        for source, matched in both
        if _fits(source.field_type, matched.field_type)
        for pair in _pairs(source, matched)
    )


def _fits(source: IcebergType, target: IcebergType) -> bool:
    match source, target:
        case StructType(), StructType():
            named = {field.name: field for field in target.fields}
            both = [field for field in source.fields if field.name in named]
            return all(_fits(field.field_type, named[field.name].field_type) for field in both)
        case ListType(), ListType():
            return _fits(source.element_type, target.element_type)
        case MapType(), MapType():
            return source.key_type == target.key_type and _fits(source.value_type, target.value_type)
        case _:
            return source == target or can_promote(target, source)


def _pairs(source: NestedField, target: NestedField) -> Iterator[tuple[int, int]]:
    yield source.field_id, target.field_id
    yield from _nested_pairs(source.field_type, target.field_type)


def _nested_pairs(source: IcebergType, target: IcebergType) -> Iterator[tuple[int, int]]:
    match source, target:
        case StructType(), StructType():
            named = {field.name: field for field in target.fields}
            for field in source.fields:
                if field.name in named:
                    yield from _pairs(field, named[field.name])
        case ListType(), ListType():
            yield from _pairs(source.element_field, target.element_field)
        case MapType(), MapType():
            yield from _pairs(source.key_field, target.key_field)
            yield from _pairs(source.value_field, target.value_field)
        case _:
            return


def with_identifier_fields(name: str, table: Schema, key_ids: Sequence[int]) -> Schema | None:
    """Return the table's schema with the key as required identifier fields; None if it has them already."""
    if table.identifier_field_ids:
        if set(table.identifier_field_ids) != set(key_ids):
            raise Invalid(
                f"{name}: its identifier fields are {_names(table, table.identifier_field_ids)}, but the key is "
                f"{_names(table, key_ids)}. Name the same columns in primary_keys, or change the identifier fields."
            )
        return None
    fields = [
        field.model_copy(update={"required": True}) if field.field_id in key_ids else field
        for field in table.fields
    ]
    return Schema(*fields, identifier_field_ids=list(key_ids))


def _names(schema: Schema, field_ids: Sequence[int]) -> str:
    return ", ".join(sorted(schema.find_column_name(field_id) or "?" for field_id in field_ids))
