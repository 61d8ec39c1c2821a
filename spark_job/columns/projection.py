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

    `field_map`: the file's field ids → the table's. `missing_values`: the table's field id → value of columns that the
    file lacks.
    """

    path: str
    field_map: FieldMap
    missing_values: MissingValues = dataclasses.field(default_factory=dict)


def read_field_id(field: pa.Field, path: str) -> int:
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
        arrow_type = field.type
        yield from nested_ids(arrow_type.field(position) for position in range(arrow_type.num_fields))


def project_column(column: pa.ChunkedArray, target: pa.DataType, projection: Projection) -> pa.ChunkedArray:
    """Return the column as `target`, whose field ids are the table's."""
    if not pa.types.is_nested(target):
        _check_scale(column.type, target, projection.path)
        return column.cast(target)
    return pa.chunked_array([_project(chunk, target, projection) for chunk in column.chunks], target)


def _project(array: pa.Array, target: pa.DataType, projection: Projection) -> pa.Array:
    array_type = array.type
    if pa.types.is_struct(target) and pa.types.is_struct(array_type):
        return _project_struct(array, target, projection)
    if pa.types.is_map(target) and pa.types.is_map(array_type):
        entries = pa.StructArray.from_arrays(
            [
                _project(array.keys, target.key_type, projection),
                _project(array.items, target.item_type, projection),
            ],
            fields=[target.key_field, target.item_field],
        )
        return _with_values(array, target, entries)
    if (
        pa.types.is_large_list(target)
        and not pa.types.is_large_list(array_type)
        and pa.types.is_nested(array_type)
    ):
        array = array.cast(pa.large_list(array_type.value_field))
    if pa.types.is_large_list(target) and pa.types.is_large_list(array.type):
        return _with_values(array, target, _project(array.values, target.value_type, projection))
    _check_scale(array_type, target, projection.path)
    return array.cast(target)


def _check_scale(file_type: pa.DataType, target: pa.DataType, path: str) -> None:
    """Reject a decimal with another scale: Iceberg never changes a scale, so the file is damaged."""
    if pa.types.is_decimal(file_type) and pa.types.is_decimal(target) and file_type.scale != target.scale:
        raise Corrupt(f"decimals have scale {file_type.scale}, not {target.scale}: {path}")


def _project_struct(array: pa.Array, target: pa.DataType, projection: Projection) -> pa.Array:
    positions = {
        projection.field_map.get(read_field_id(child, projection.path)): position
        for position, child in enumerate(array.type)
    }
    children = []
    for child in target:
        child_id = read_field_id(child, projection.path)
        position = positions.get(child_id)
        if position is None:
            children.append(
                fill_missing_column(child, len(array), child_id, projection.missing_values, projection.path)
            )
        else:
            children.append(_project(array.field(position), child.type, projection))
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _with_values(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """Return the lists or maps of `array` with other child values. Offsets and validity stay, so NULL stays NULL."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], offset=array.offset, children=[values]
    )
