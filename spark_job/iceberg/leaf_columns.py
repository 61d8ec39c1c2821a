"""The columns of a table that hold one value for each row: those of its own and, however deep, of its structs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType, StructType


@dataclass(frozen=True)
class Leaf:
    """A column by its names from the outermost struct inwards."""

    field_id: int
    names: tuple[str, ...]
    kind: PrimitiveType

    @property
    def path(self) -> str:
        """What Parquet calls it."""
        return ".".join(self.names)

    def of(self, rows: pa.Table) -> pa.ChunkedArray:
        """Its values; NULL where a struct around it is."""
        column = rows[self.names[0]]
        return pc.struct_field(column, list(self.names[1:])) if len(self.names) > 1 else column


def leaf_columns(schema: Schema) -> tuple[Leaf, ...]:
    """The columns in the order of the schema; not those inside of lists and maps."""
    return tuple(_inside(schema.as_struct(), ()))


def _inside(struct: StructType, names: tuple[str, ...]) -> Iterator[Leaf]:
    for field in struct.fields:
        if isinstance(field.field_type, StructType):
            yield from _inside(field.field_type, (*names, field.name))
        elif isinstance(field.field_type, PrimitiveType):
            yield Leaf(field.field_id, (*names, field.name), field.field_type)


def physical(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    """Dates, times and timestamps as the numbers that Iceberg stores, everything else as it is."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in chunks], kind.storage_type)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.chunked_array([chunk.view(pa.int32()) for chunk in chunks], pa.int32())
    if pa.types.is_temporal(kind):
        return pa.chunked_array([chunk.view(pa.int64()) for chunk in chunks], pa.int64())
    return pa.chunked_array(chunks, kind)
