"""Which metrics a manifest has for each column: `write.metadata.metrics.*`, as Iceberg Java interprets them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from icemirror.errors import Invalid
from icemirror.tables.mirror_properties import METRICS_COLUMNS

METRICS_DEFAULT = "write.metadata.metrics.default"
METRICS_COLUMN_PREFIX = "write.metadata.metrics.column."

_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_DEFAULT_MAX_COLUMNS = 100


@dataclass(frozen=True)
class MetricsMode:
    """The metrics of one column. `length`: maximal length of bounds of strings and binaries; 0: no bounds at all."""

    counts: bool
    length: int


NONE = MetricsMode(counts=False, length=0)
COUNTS = MetricsMode(counts=True, length=0)
FULL = MetricsMode(counts=True, length=sys.maxsize)
DEFAULT_MODE = MetricsMode(counts=True, length=16)


def metrics_modes(schema: Schema, properties: Mapping[str, str], order: SortOrder) -> dict[int, MetricsMode]:
    """Return field id → mode of every primitive column, including those in lists and maps."""
    default_mode, column_modes = DEFAULT_MODE, {}
    if METRICS_DEFAULT in properties:
        default_mode = _parse_mode(properties[METRICS_DEFAULT], DEFAULT_MODE)
    elif len(list(_counted_columns(schema.as_struct()))) > (limit := _max_columns(properties)):
        column_modes = dict.fromkeys(islice(_primitives_by_level(schema.as_struct()), limit), DEFAULT_MODE)
        default_mode = NONE
    sort_column_mode = DEFAULT_MODE if default_mode in (NONE, COUNTS) else default_mode
    column_modes |= {
        field.source_id: sort_column_mode for field in order.fields if field.transform.preserves_order
    }
    primitives = set(_primitives_by_level(schema.as_struct()))
    modes = {field_id: column_modes.get(field_id, default_mode) for field_id in primitives}
    for field_id in primitives:
        configured = properties.get(f"{METRICS_COLUMN_PREFIX}{schema.find_column_name(field_id)}")
        if configured is not None:
            modes[field_id] = _parse_mode(configured, default_mode)
    return modes


def _parse_mode(text: str, fallback: MetricsMode) -> MetricsMode:
    modes = {"none": NONE, "counts": COUNTS, "full": FULL}
    lowered = text.lower()
    if lowered in modes:
        return modes[lowered]
    match = _TRUNCATE.fullmatch(lowered)
    length = int(match[1]) if match else 0
    return MetricsMode(counts=True, length=length) if length else fallback


def _max_columns(properties: Mapping[str, str]) -> int:
    text = properties.get(METRICS_COLUMNS) or str(_DEFAULT_MAX_COLUMNS)
    try:
        limit = int(text)
    except ValueError as error:
        raise Invalid(
            f"table property {METRICS_COLUMNS} is {text!r}, not a whole number. Correct it in the mirror."
        ) from error
    return limit if limit >= 0 else _DEFAULT_MAX_COLUMNS


def _counted_columns(iceberg_type: IcebergType) -> Iterator[int]:
    """Yield the ids of what Java counts as columns: the key of a map only if the value is primitive."""
    match iceberg_type:
        case StructType(fields=fields):
            for field in fields:
                is_leaf = field.field_type.is_primitive
                yield from [field.field_id] if is_leaf else _counted_columns(field.field_type)
        case ListType(element_id=element_id, element_type=element):
            yield from [element_id] if element.is_primitive else _counted_columns(element)
        case MapType(key_id=key_id, key_type=key_type, value_id=value_id, value_type=value_type):
            yield from _counted_columns(key_type)
            yield from (key_id, value_id) if value_type.is_primitive else _counted_columns(value_type)


def _primitives_by_level(iceberg_type: IcebergType) -> Iterator[int]:
    """Yield the primitive columns in the order in which Java gives them bounds: each level before its nested fields."""
    children: list[tuple[int, IcebergType]]
    match iceberg_type:
        case StructType(fields=fields):
            children = [(field.field_id, field.field_type) for field in fields]
        case ListType(element_id=element_id, element_type=element):
            children = [(element_id, element)]
        case MapType(key_id=key_id, key_type=key_type, value_id=value_id, value_type=value_type):
            children = [(key_id, key_type), (value_id, value_type)]
        case _:
            children = []
    yield from (field_id for field_id, child in children if child.is_primitive)
    for _, child in children:
        yield from _primitives_by_level(child)
