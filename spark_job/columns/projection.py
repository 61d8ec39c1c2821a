"""Values of one Arrow type as another, with the fields of structs found by field id, however deep.

PyIceberg's projection is not used: it turns a NULL list of structs into an empty one (apache/iceberg-python#3833).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import pyarrow as pa

from icemirror.errors import Corrupt, Invalid
from spark_job.columns.absent import Absent, absent_values
from spark_job.columns.field_map import FieldMap

FIELD_ID = b"PARQUET:field_id"


@dataclasses.dataclass(frozen=True, slots=True)
class Projection:
    """How a file's columns become a table's: its field ids → the table's, and what it does not have, by the latter."""

    path: str
    ids: FieldMap
    absent: Absent = dataclasses.field(default_factory=dict)


def field_id_of(field: pa.Field, path: str) -> int:
    """The Iceberg field id of a column or nested field of a file."""
    field_id = (field.metadata or {}).get(FIELD_ID)
    if field_id is None:
        raise Invalid(
            f"{path}: column {field.name} has no Iceberg field id; the file was not written by an Iceberg writer"
        )
    return int(field_id)


def nested_ids(fields: Iterable[pa.Field]) -> Iterator[int]:
    """The Iceberg field ids of columns and of all that is inside them."""
    for field in fields:
        field_id = (field.metadata or {}).get(FIELD_ID)
        if field_id is not None:
            yield int(field_id)
        kind = field.type
        yield from nested_ids(kind.field(at) for at in range(kind.num_fields))


def project_column(column: pa.ChunkedArray, target: pa.DataType, by: Projection) -> pa.ChunkedArray:
    """The column as `target`, whose field ids are those that the file's are mapped to."""
    if not pa.types.is_nested(target):
        _check_scale(column.type, target, by.path)
        return column.cast(target)
    return pa.chunked_array([_project(chunk, target, by) for chunk in column.chunks], target)


def _project(array: pa.Array, target: pa.DataType, by: Projection) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(target) and pa.types.is_struct(kind):
        return _struct(array, target, by)
    if pa.types.is_map(target) and pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [
                _project(array.keys, target.key_type, by),
                _project(array.items, target.item_type, by),
            ],
            fields=[target.key_field, target.item_field],
        )
        return _over(array, target, entries)
    if pa.types.is_large_list(target) and not pa.types.is_large_list(kind) and pa.types.is_nested(kind):
        array = array.cast(pa.large_list(kind.value_field))
    if pa.types.is_large_list(target) and pa.types.is_large_list(array.type):
        return _over(array, target, _project(array.values, target.value_type, by))
    _check_scale(kind, target, by.path)
    return array.cast(target)


def _check_scale(kind: pa.DataType, target: pa.DataType, path: str) -> None:
    """No table changes the scale of a decimal; a file that does is damaged, and its values would change as well."""
    if pa.types.is_decimal(kind) and pa.types.is_decimal(target) and kind.scale != target.scale:
        raise Corrupt(f"{path}: decimals with {kind.scale} digits after the point, not {target.scale}")


def _struct(array: pa.Array, target: pa.DataType, by: Projection) -> pa.Array:
    places = {by.ids.get(field_id_of(part, by.path)): at for at, part in enumerate(array.type)}
    children = []
    for part in target:
        part_id = field_id_of(part, by.path)
        at = places.get(part_id)
        if at is None:
            children.append(absent_values(part, len(array), part_id, by.absent, by.path))
        else:
            children.append(_project(array.field(at), part.type, by))
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _over(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """The lists or maps of `array`, over other values: NULL stays NULL, empty stays empty."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], offset=array.offset, children=[values]
    )
