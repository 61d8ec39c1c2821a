"""Which types of columns are mirrored; the others are refused by name before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pyiceberg.schema import Schema
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    UnknownType,
)

from icemirror.errors import Invalid

# `variant` is not here: PyIceberg cannot even load a table that has it, see `failures.answered`.
_NOT_MIRRORED = (UnknownType, GeometryType, GeographyType)
_LEAVE_OUT = "Leave the column out of the changelog"


def require_mirrored_types(
    changelog: str, schema: Schema, row_ids: Collection[int], format_version: int
) -> None:
    """Refuses columns of the row, at any depth, that a mirror of this format version cannot have."""
    for field in schema.fields:
        if field.field_id not in row_ids:
            continue
        for kind in _types(field.field_type):
            if isinstance(kind, _NOT_MIRRORED):
                raise Invalid(
                    f"{changelog}: column {field.name} has type {kind}, which this version does not mirror. "
                    f"{_LEAVE_OUT}."
                )
            if isinstance(kind, StructType) and not kind.fields:
                raise Invalid(
                    f"{changelog}: column {field.name} has a struct without fields, which Parquet cannot hold. "
                    f"{_LEAVE_OUT}."
                )
            if kind.minimum_format_version() > format_version:
                raise Invalid(
                    f"{changelog}: column {field.name} has type {kind}, which tables of format version "
                    f"{format_version} do not have. Set format_version: {kind.minimum_format_version()}; a mirror that "
                    "is there already has to be upgraded by an engine (`ALTER TABLE … SET TBLPROPERTIES "
                    f"('format-version' = '{kind.minimum_format_version()}')`)."
                )


def least_version(schema: Schema) -> int:
    """The format version from which on a table can have these columns."""
    return max(kind.minimum_format_version() for kind in _types(schema.as_struct()))


def _types(kind: IcebergType) -> Iterator[IcebergType]:
    """A type, and all that it is made of."""
    yield kind
    match kind:
        case StructType():
            for field in kind.fields:
                yield from _types(field.field_type)
        case ListType():
            yield from _types(kind.element_type)
        case MapType():
            yield from _types(kind.key_type)
            yield from _types(kind.value_type)
