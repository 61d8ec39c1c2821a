"""Values of one Arrow type as another, with the fields of structs found by field id, however deep.

PyIceberg's projection is not used: it turns a NULL list of structs into an empty one (apache/iceberg-python#3833).
"""

from __future__ import annotations

import pyarrow as pa

from icemirror.errors import Invalid
from spark_job.field_map import FieldMap

FIELD_ID = b"PARQUET:field_id"


def field_id_of(field: pa.Field, path: str) -> int:
    """The Iceberg field id of a column or nested field of a file."""
    field_id = (field.metadata or {}).get(FIELD_ID)
    if field_id is None:
        raise Invalid(
            f"{path}: column {field.name} has no Iceberg field id; the file was not written by an Iceberg writer"
        )
    return int(field_id)


def project_column(column: pa.ChunkedArray, target: pa.DataType, ids: FieldMap, path: str) -> pa.ChunkedArray:
    """The column as `target`, whose field ids are those that `ids` maps the file's to."""
    if not pa.types.is_nested(target):
        return column.cast(target)
    return pa.chunked_array([_project(chunk, target, ids, path) for chunk in column.chunks], target)


def _project(array: pa.Array, target: pa.DataType, ids: FieldMap, path: str) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(target) and pa.types.is_struct(kind):
        return _struct(array, target, ids, path)
    if pa.types.is_map(target) and pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [
                _project(array.keys, target.key_type, ids, path),
                _project(array.items, target.item_type, ids, path),
            ],
            fields=[target.key_field, target.item_field],
        )
        return _over(array, target, entries)
    if pa.types.is_large_list(target) and not pa.types.is_large_list(kind) and pa.types.is_nested(kind):
        array = array.cast(pa.large_list(kind.value_field))
    if pa.types.is_large_list(target) and pa.types.is_large_list(array.type):
        return _over(array, target, _project(array.values, target.value_type, ids, path))
    return array.cast(target)


def _struct(array: pa.Array, target: pa.DataType, ids: FieldMap, path: str) -> pa.Array:
    """A field that the file does not have is NULL."""
    places = {ids.get(field_id_of(field, path)): at for at, field in enumerate(array.type)}
    children = []
    for field in target:
        at = places.get(field_id_of(field, path))
        if at is None:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(_project(array.field(at), field.type, ids, path))
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _over(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """The lists or maps of `array`, over other values: NULL stays NULL, empty stays empty."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], offset=array.offset, children=[values]
    )
