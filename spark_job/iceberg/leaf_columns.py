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
    kind: PrimitiveType

    @property
    def path(self) -> str:
        """Its path in a Parquet file."""
        return ".".join(self.names)

    def values_in(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return its values in these rows: NULL where an enclosing struct is NULL."""
        column = rows[self.names[0]]
        return pc.struct_field(column, list(self.names[1:])) if len(self.names) > 1 else column


def leaf_columns(schema: Schema) -> tuple[LeafColumn, ...]:
    """Return the leaf columns in schema order, without those in lists and maps."""
    return tuple(_leaves(schema.as_struct(), ()))


def _leaves(struct: StructType, names: tuple[str, ...]) -> Iterator[LeafColumn]:
    for field in struct.fields:
        if isinstance(field.field_type, StructType):
            yield from _leaves(field.field_type, (*names, field.name))
        elif isinstance(field.field_type, PrimitiveType):
            yield LeafColumn(field.field_id, (*names, field.name), field.field_type)


def to_physical(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    """Return dates, times and timestamps as the numbers that Iceberg stores; other values unchanged."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in chunks], kind.storage_type)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.chunked_array([chunk.view(pa.int32()) for chunk in chunks], pa.int32())
    if pa.types.is_temporal(kind):
        return pa.chunked_array([chunk.view(pa.int64()) for chunk in chunks], pa.int64())
    return pa.chunked_array(chunks, kind)
