"""The map from a changelog's field ids to those of a table that was not made from it: by the names of the fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from icemirror.errors import Invalid
from spark_job.columns.field_map import FieldMap
from spark_job.schema_changes.evolve import widens


def match_by_name(name: str, changelog: Schema, row_ids: Sequence[int], table: Schema) -> FieldMap:
    """The map for the row's columns, nested fields included; refuses a table with others. Types are not compared."""
    here = {field.name: field for field in changelog.fields if field.field_id in row_ids}
    there = {field.name: field for field in table.fields}
    missing = [column for column in here if column not in there]
    more = [column for column in there if column not in here]
    if missing or more:
        told = [
            f"it lacks {', '.join(missing)}" if missing else "",
            f"it has {', '.join(more)}, which the changelog does not have" if more else "",
        ]
        raise Invalid(
            f"{name}: its columns are not those of the changelog: {'; '.join(filter(None, told))}. "
            "Add or drop columns, so that both have the same names."
        )
    pairs = [pair for column, field in here.items() for pair in _pairs(field, there[column])]
    return dict(pairs)


def match_what_fits(changelog: Schema, table: Schema) -> FieldMap:
    """The map for those columns that both have by name, if values of the one can be values of the other."""
    there = {field.name: field for field in table.fields}
    both = [(field, there[field.name]) for field in changelog.fields if field.name in there]
    return dict(
        pair for here, old in both if _fits(here.field_type, old.field_type) for pair in _pairs(here, old)
    )


def _fits(here: IcebergType, there: IcebergType) -> bool:
    match here, there:
        case StructType(), StructType():
            named = {field.name: field for field in there.fields}
            both = [field for field in here.fields if field.name in named]
            return all(_fits(field.field_type, named[field.name].field_type) for field in both)
        case ListType(), ListType():
            return _fits(here.element_type, there.element_type)
        case MapType(), MapType():
            return here.key_type == there.key_type and _fits(here.value_type, there.value_type)
        case _:
            return here == there or widens(there, here)


def _pairs(here: NestedField, there: NestedField) -> Iterator[tuple[int, int]]:
    yield here.field_id, there.field_id
    yield from _below(here.field_type, there.field_type)


def _below(here: IcebergType, there: IcebergType) -> Iterator[tuple[int, int]]:
    match here, there:
        case StructType(), StructType():
            named = {field.name: field for field in there.fields}
            for field in here.fields:
                if field.name in named:
                    yield from _pairs(field, named[field.name])
        case ListType(), ListType():
            yield from _pairs(here.element_field, there.element_field)
        case MapType(), MapType():
            yield from _pairs(here.key_field, there.key_field)
            yield from _pairs(here.value_field, there.value_field)
        case _:
            return


def with_key(name: str, table: Schema, key_ids: Sequence[int]) -> Schema | None:
    """The table's schema with the key as its identifier fields, which must be required; None if it is so already."""
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
