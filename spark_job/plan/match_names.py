"""Maps a changelog's field ids to those of a table that was created independently, by field names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from icemirror.errors import Invalid
from spark_job.columns.field_map import FieldMap
from spark_job.plan.evolve_columns import can_promote


def match_by_name(name: str, changelog: Schema, row_ids: Sequence[int], table: Schema) -> FieldMap:
    """Return the field map of the row's columns, with nested fields; refuse a table with other columns.

    Ignores types.
    """
    source = {field.name: field for field in changelog.fields if field.field_id in row_ids}
    target = {field.name: field for field in table.fields}
    missing_columns = [column for column in source if column not in target]
    unexpected_columns = [column for column in target if column not in source]
    if missing_columns or unexpected_columns:
        problems = [
            f"it lacks {', '.join(missing_columns)}" if missing_columns else "",
            f"it has {', '.join(unexpected_columns)}, which the changelog does not have"
            if unexpected_columns
            else "",
        ]
        raise Invalid(
            f"{name}: its columns are not those of the changelog: {'; '.join(filter(None, problems))}. "
            "Add or drop columns, so that both have the same names."
        )
    pairs = [pair for column, field in source.items() for pair in _id_pairs(field, target[column])]
    return dict(pairs)


def match_by_name_and_type(changelog: Schema, table: Schema) -> FieldMap:
    """Return the field map of columns with the same name in both, if the changelog's type fits the table's."""
    target = {field.name: field for field in table.fields}
    same_names = [(field, target[field.name]) for field in changelog.fields if field.name in target]
    return dict(
        pair
        for source_field, target_field in same_names
        if _fits(source_field.field_type, target_field.field_type)
        for pair in _id_pairs(source_field, target_field)
    )


def _fits(source: IcebergType, target: IcebergType) -> bool:
    match source, target:
        case StructType(), StructType():
            target_fields = {field.name: field for field in target.fields}
            same_names = [field for field in source.fields if field.name in target_fields]
            return all(_fits(field.field_type, target_fields[field.name].field_type) for field in same_names)
        case ListType(), ListType():
            return _fits(source.element_type, target.element_type)
        case MapType(), MapType():
            return source.key_type == target.key_type and _fits(source.value_type, target.value_type)
        case _:
            return source == target or can_promote(target, source)


def _id_pairs(source: NestedField, target: NestedField) -> Iterator[tuple[int, int]]:
    yield source.field_id, target.field_id
    yield from _nested_id_pairs(source.field_type, target.field_type)


def _nested_id_pairs(source: IcebergType, target: IcebergType) -> Iterator[tuple[int, int]]:
    match source, target:
        case StructType(), StructType():
            target_fields = {field.name: field for field in target.fields}
            for field in source.fields:
                if field.name in target_fields:
                    yield from _id_pairs(field, target_fields[field.name])
        case ListType(), ListType():
            yield from _id_pairs(source.element_field, target.element_field)
        case MapType(), MapType():
            yield from _id_pairs(source.key_field, target.key_field)
            yield from _id_pairs(source.value_field, target.value_field)
        case _:
            return
