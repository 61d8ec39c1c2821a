"""How much a manifest says of each column: `write.metadata.metrics.*` as Iceberg Java reads them."""

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
from icemirror.mirror_properties import METRICS_COLUMNS

DEFAULT = "write.metadata.metrics.default"
COLUMN = "write.metadata.metrics.column."

_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_MOST_COLUMNS = 100


@dataclass(frozen=True)
class Mode:
    """Whether there are counts, and how long bounds of text and bytes may be; 0: no bounds of any type."""

    counts: bool
    length: int


NONE = Mode(counts=False, length=0)
COUNTS = Mode(counts=True, length=0)
FULL = Mode(counts=True, length=sys.maxsize)
USUAL = Mode(counts=True, length=16)


def metrics_modes(schema: Schema, properties: Mapping[str, str], order: SortOrder) -> dict[int, Mode]:
    """The mode of every column with values, those in lists and maps included, by field id."""
    usual, columns = USUAL, {}
    if DEFAULT in properties:
        usual = _parse(properties[DEFAULT], USUAL)
    elif len(list(_inferred(schema.as_struct()))) > (most := _most_columns(properties)):
        columns = dict.fromkeys(islice(_by_level(schema.as_struct()), most), USUAL)
        usual = NONE
    sorted_by = USUAL if usual in (NONE, COUNTS) else usual
    columns |= {field.source_id: sorted_by for field in order.fields if field.transform.preserves_order}
    values = set(_by_level(schema.as_struct()))
    modes = {field_id: columns.get(field_id, usual) for field_id in values}
    for field_id in values:
        asked = properties.get(f"{COLUMN}{schema.find_column_name(field_id)}")
        if asked is not None:
            modes[field_id] = _parse(asked, usual)
    return modes


def _parse(text: str, otherwise: Mode) -> Mode:
    named = {"none": NONE, "counts": COUNTS, "full": FULL}
    lower = text.lower()
    if lower in named:
        return named[lower]
    truncated = _TRUNCATE.fullmatch(lower)
    length = int(truncated[1]) if truncated else 0
    return Mode(counts=True, length=length) if length else otherwise


def _most_columns(properties: Mapping[str, str]) -> int:
    text = properties.get(METRICS_COLUMNS) or str(_MOST_COLUMNS)
    try:
        most = int(text)
    except ValueError as error:
        raise Invalid(
            f"table property {METRICS_COLUMNS} is {text!r}, not a whole number. Correct it in the mirror."
        ) from error
    return most if most >= 0 else _MOST_COLUMNS


def _inferred(kind: IcebergType) -> Iterator[int]:
    """What Java counts as columns: the keys of maps only where the values are no structs, lists or maps."""
    match kind:
        case StructType(fields=fields):
            for field in fields:
                yield from [field.field_id] if field.field_type.is_primitive else _inferred(field.field_type)
        case ListType(element_id=number, element_type=element):
            yield from [number] if element.is_primitive else _inferred(element)
        case MapType(key_id=key, key_type=key_type, value_id=value, value_type=value_type):
            yield from _inferred(key_type)
            yield from (key, value) if value_type.is_primitive else _inferred(value_type)


def _by_level(kind: IcebergType) -> Iterator[int]:
    """The columns with values in the order in which Java gives them bounds: own ones before nested ones."""
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
