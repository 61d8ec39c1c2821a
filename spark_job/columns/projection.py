"""Converts a column of a file to the table's Arrow type. Fields of structs are matched by field id at any depth.

PyIceberg's projection is not used: it turns a NULL list of structs into an empty one (apache/iceberg-python#3833).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import pyarrow as pa

from icemirror.errors import Corrupt, Invalid
from spark_job.columns.field_map import FieldMap
from spark_job.columns.missing_columns import MissingValues, fill_missing_column

FIELD_ID = b"PARQUET:field_id"


@dataclasses.dataclass(frozen=True, slots=True)
class Projection:
    """How a file's columns become the table's.

    `ids`: the file's field ids → the table's. `missing_values`: the table's field id → value of columns that the file
    lacks.
    """

    path: str
    ids: FieldMap
    missing_values: MissingValues = dataclasses.field(default_factory=dict)


def field_id_of(field: pa.Field, path: str) -> int:
    """Return the Iceberg field id of a file's column or nested field."""
    field_id = (field.metadata or {}).get(FIELD_ID)
    if field_id is None:
        raise Invalid(
            f"column {field.name} has no Iceberg field id; the file was not written by an Iceberg writer: {path}"
        )
    return int(field_id)


def nested_ids(fields: Iterable[pa.Field]) -> Iterator[int]:
    """Yield the Iceberg field ids of columns and of all fields nested in them."""
    for field in fields:
        field_id = (field.metadata or {}).get(FIELD_ID)
        if field_id is not None:
            yield int(field_id)
        kind = field.type
        yield from nested_ids(kind.field(at) for at in range(kind.num_fields))


def project_column(column: pa.ChunkedArray, target: pa.DataType, projection: Projection) -> pa.ChunkedArray:
    """Return the column as `target`, whose field ids are the table's."""
    if not pa.types.is_nested(target):
        _check_scale(column.type, target, projection.path)
        return column.cast(target)
    return pa.chunked_array([_project(chunk, target, projection) for chunk in column.chunks], target)


def _project(array: pa.Array, target: pa.DataType, projection: Projection) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(target) and pa.types.is_struct(kind):
        return _struct(array, target, projection)
    if pa.types.is_map(target) and pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [
                _project(array.keys, target.key_type, projection),
                _project(array.items, target.item_type, projection),
            ],
            fields=[target.key_field, target.item_field],
        )
        return _with_values(array, target, entries)
    if pa.types.is_large_list(target) and not pa.types.is_large_list(kind) and pa.types.is_nested(kind):
        array = array.cast(pa.large_list(kind.value_field))
    if pa.types.is_large_list(target) and pa.types.is_large_list(array.type):
        return _with_values(array, target, _project(array.values, target.value_type, projection))
    _check_scale(kind, target, projection.path)
    return array.cast(target)


def _check_scale(kind: pa.DataType, target: pa.DataType, path: str) -> None:
    """Reject a decimal with another scale: Iceberg never changes a scale, so the file is damaged."""
    if pa.types.is_decimal(kind) and pa.types.is_decimal(target) and kind.scale != target.scale:
        raise Corrupt(f"decimals have scale {kind.scale}, not {target.scale}: {path}")


def _struct(array: pa.Array, target: pa.DataType, projection: Projection) -> pa.Array:
    positions = {
        projection.ids.get(field_id_of(child, projection.path)): at for at, child in enumerate(array.type)
    }
    children = []
    for child in target:
        child_id = field_id_of(child, projection.path)
        at = positions.get(child_id)
        if at is None:
            children.append(
                fill_missing_column(child, len(array), child_id, projection.missing_values, projection.path)
            )
        else:
            children.append(_project(array.field(at), child.type, projection))
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _with_values(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """Return the lists or maps of `array` with other child values. Offsets and validity stay, so NULL stays NULL."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], offset=array.offset, children=[values]
    )
