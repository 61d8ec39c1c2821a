"""Values as JSON, by the Iceberg spec, "JSON Single-Value Serialization". Structs are objects with field names."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

# Any: all values of JSON.
Json = Any
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def row_as_json(row: pa.Table) -> dict[str, Json]:
    """Return the values of a table's first row by column."""
    return {name: value_as_json(row[name][0]) for name in row.column_names}


def value_as_json(value: pa.Scalar) -> Json:
    """Return one value."""
    kind = value.type
    if not value.is_valid:
        return None
    if isinstance(kind, pa.BaseExtensionType):
        return str(UUID(bytes=value.value.as_py()))
    if pa.types.is_struct(kind):
        return {name: value_as_json(value[name]) for name in value}
    if pa.types.is_map(kind):
        pairs = list(value.values)
        return {
            "keys": _list_as_json(pair[0] for pair in pairs),
            "values": _list_as_json(pair[1] for pair in pairs),
        }
    if pa.types.is_nested(kind):
        return _list_as_json(value.values)
    if pa.types.is_temporal(kind):
        return temporal_text(value.value, kind)
    return _primitive_as_json(value.as_py())


def _list_as_json(values: Iterable[pa.Scalar]) -> list[Json]:
    return [value_as_json(value) for value in values]


def _primitive_as_json(value: Json) -> Json:
    match value:
        case bool() | int() | str():
            return value
        case bytes():
            return value.hex()
        case float():
            return value if math.isfinite(value) else json.dumps(value)
        case _:
            return str(value)


def temporal_text(number: int, kind: pa.DataType) -> str:
    """Return a date, time or timestamp in ISO 8601, for any year."""
    if pa.types.is_date(kind):
        return str(np.datetime64(number, "D"))
    if pa.types.is_time(kind):
        return _time_text(number, kind.unit)
    return f"{np.datetime64(number, kind.unit)}{'+00:00' if kind.tz else ''}"


def _time_text(number: int, unit: str) -> str:
    seconds, fraction = divmod(number, _UNITS[unit])
    digits = len(str(_UNITS[unit])) - 1
    whole = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{whole}.{fraction:0{digits}}" if digits else whole
