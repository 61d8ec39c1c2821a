"""Columns that a data file does not have, and what they hold there: the spec, "Column Projection".

The value of an identity partition, else the column's initial default, else NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from icemirror.errors import Invalid

# Any: a value of whatever type the column is of.
Absent = Mapping[int, Any]


def initial_defaults(schema: Schema) -> Absent:
    """The defaults of a table's fields, at any depth, by field id."""
    return {
        field.field_id: field.initial_default
        for field in _fields(schema.as_struct())
        if field.initial_default is not None
    }


def identity_columns(specs: Mapping[int, PartitionSpec]) -> dict[int, tuple[tuple[int, int], ...]]:
    """By partition spec: the places and field ids of the columns that are partitioned by as they are."""
    return {
        spec_id: tuple(
            (place, one.source_id)
            for place, one in enumerate(spec.fields)
            if isinstance(one.transform, IdentityTransform)
        )
        for spec_id, spec in specs.items()
    }


class AbsentIn:
    """What the columns of a table hold that one of its files may not have."""

    def __init__(self, schema: Schema, specs: Mapping[int, PartitionSpec]) -> None:
        self.defaults, self._identities = initial_defaults(schema), identity_columns(specs)

    def of(self, spec_id: int, partition: Record) -> Absent:
        """In a file of this partition."""
        places = self._identities[spec_id]
        return {**self.defaults, **{field_id: partition[place] for place, field_id in places}}


def absent_values(field: pa.Field, rows: int, field_id: int, absent: Absent, path: str) -> pa.Array:
    """As many values of a field that the file does not have."""
    value = absent.get(field_id)
    if value is None:
        return pa.nulls(rows, field.type)
    kind = field.type
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    try:
        values = pa.repeat(pa.scalar(value.bytes if isinstance(value, UUID) else value, storage), rows)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Not Arrow's words: they hold the value.
        raise Invalid(
            f"{path}: does not have column {field.name}, whose default, or partition value, is no {field.type}"
        ) from None
    return pa.ExtensionArray.from_storage(kind, values) if storage is not kind else values


def _fields(kind: IcebergType) -> Iterator[NestedField]:
    match kind:
        case StructType():
            for field in kind.fields:
                yield field
                yield from _fields(field.field_type)
        case ListType():
            yield from _fields(kind.element_type)
        case MapType():
            yield from _fields(kind.key_type)
            yield from _fields(kind.value_type)
