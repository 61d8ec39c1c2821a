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

DEFAULT = "write.metadata.metrics.default"
COLUMN = "write.metadata.metrics.column."

_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_DEFAULT_MAX_COLUMNS = 100


@dataclass(frozen=True)
class MetricsMode:
    """Whether counts are written, and the maximal length of bounds of strings and binaries; 0: no bounds at all."""

    counts: bool
    length: int


NONE = MetricsMode(counts=False, length=0)
COUNTS = MetricsMode(counts=True, length=0)
FULL = MetricsMode(counts=True, length=sys.maxsize)
DEFAULT_MODE = MetricsMode(counts=True, length=16)


def metrics_modes(schema: Schema, properties: Mapping[str, str], order: SortOrder) -> dict[int, MetricsMode]:
    """Return field id → mode of every primitive column, including those in lists and maps."""
    default, columns = DEFAULT_MODE, {}
    if DEFAULT in properties:
        default = _parse(properties[DEFAULT], DEFAULT_MODE)
    elif len(list(_counted_columns(schema.as_struct()))) > (limit := _max_columns(properties)):
        columns = dict.fromkeys(islice(_by_level(schema.as_struct()), limit), DEFAULT_MODE)
        default = NONE
    sorted_by = DEFAULT_MODE if default in (NONE, COUNTS) else default
    columns |= {field.source_id: sorted_by for field in order.fields if field.transform.preserves_order}
    primitives = set(_by_level(schema.as_struct()))
    modes = {field_id: columns.get(field_id, default) for field_id in primitives}
    for field_id in primitives:
        configured = properties.get(f"{COLUMN}{schema.find_column_name(field_id)}")
        if configured is not None:
            modes[field_id] = _parse(configured, default)
    return modes


def _parse(text: str, otherwise: MetricsMode) -> MetricsMode:
    named = {"none": NONE, "counts": COUNTS, "full": FULL}
    lower = text.lower()
    if lower in named:
        return named[lower]
    truncated = _TRUNCATE.fullmatch(lower)
    length = int(truncated[1]) if truncated else 0
    return MetricsMode(counts=True, length=length) if length else otherwise


def _max_columns(properties: Mapping[str, str]) -> int:
    text = properties.get(METRICS_COLUMNS) or str(_DEFAULT_MAX_COLUMNS)
    try:
        limit = int(text)
    except ValueError as error:
        raise Invalid(
            f"table property {METRICS_COLUMNS} is {text!r}, not a whole number. Correct it in the mirror."
        ) from error
    return limit if limit >= 0 else _DEFAULT_MAX_COLUMNS


def _counted_columns(kind: IcebergType) -> Iterator[int]:
    """Yield what Java counts as columns: the key of a map only if the value is primitive."""
    match kind:
        case StructType(fields=fields):
            for field in fields:
                is_leaf = field.field_type.is_primitive
                yield from [field.field_id] if is_leaf else _counted_columns(field.field_type)
        case ListType(element_id=number, element_type=element):
            yield from [number] if element.is_primitive else _counted_columns(element)
        case MapType(key_id=key, key_type=key_type, value_id=value, value_type=value_type):
            yield from _counted_columns(key_type)
            yield from (key, value) if value_type.is_primitive else _counted_columns(value_type)


def _by_level(kind: IcebergType) -> Iterator[int]:
    """Yield the primitive columns in the order in which Java gives them bounds: each level before its nested fields."""
    children: list[tuple[int, IcebergType]]
    match kind:
        case StructType(fields=fields):
            children = [(field.field_id, field.field_type) for field in fields]
        case ListType(element_id=number, element_type=element):
            children = [(number, element)]
        case MapType(key_id=key, key_type=key_type, value_id=value, value_type=value_type):
            children = [(key, key_type), (value, value_type)]
        case _:
            children = []
    yield from (field_id for field_id, child in children if child.is_primitive)
    for _, child in children:
        yield from _by_level(child)
