"""Leaf columns: primitive columns at the top level and, at any depth, in structs. They have one value per row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType, StructType


@dataclass(frozen=True)
class LeafColumn:
    """A column, with its path of names from the top level down."""

    field_id: int
    names: tuple[str, ...]
    field_type: PrimitiveType

    @property
    def path(self) -> str:
        """The column's path in a Parquet file."""
        return ".".join(self.names)

    def values_in(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the column's values in these rows: NULL where an enclosing struct is NULL."""
        column = rows[self.names[0]]
        return pc.struct_field(column, list(self.names[1:])) if len(self.names) > 1 else column


def leaf_columns(schema: Schema) -> tuple[LeafColumn, ...]:
    """Return the leaf columns in schema order, without those in lists and maps."""
    return tuple(_walk_leaves(schema.as_struct(), ()))


def _walk_leaves(struct: StructType, names: tuple[str, ...]) -> Iterator[LeafColumn]:
    """Yield the leaf columns of a struct whose path is `names`."""
    for field in struct.fields:
        if isinstance(field.field_type, StructType):
            yield from _walk_leaves(field.field_type, (*names, field.name))
        elif isinstance(field.field_type, PrimitiveType):
            yield LeafColumn(field.field_id, (*names, field.name), field.field_type)
