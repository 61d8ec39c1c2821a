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
    """Return the values of a table's first row, by column name."""
    return {name: value_as_json(row[name][0]) for name in row.column_names}


def value_as_json(value: pa.Scalar) -> Json:
    """Return a value as JSON; NULL is None."""
    arrow_type = value.type
    if not value.is_valid:
        return None
    if isinstance(arrow_type, pa.BaseExtensionType):
        return str(UUID(bytes=value.value.as_py()))
    if pa.types.is_struct(arrow_type):
        return {name: value_as_json(value[name]) for name in value}
    if pa.types.is_map(arrow_type):
        pairs = list(value.values)
        return {
            "keys": _list_as_json(pair[0] for pair in pairs),
            "values": _list_as_json(pair[1] for pair in pairs),
        }
    if pa.types.is_nested(arrow_type):
        return _list_as_json(value.values)
    if pa.types.is_temporal(arrow_type):
        return temporal_text(value.value, arrow_type)
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


def temporal_text(stored_value: int, arrow_type: pa.DataType) -> str:
    """Return a date, time or timestamp in ISO 8601, for any year."""
    if pa.types.is_date(arrow_type):
        return str(np.datetime64(stored_value, "D"))
    if pa.types.is_time(arrow_type):
        return _time_text(stored_value, arrow_type.unit)
    return f"{np.datetime64(stored_value, arrow_type.unit)}{'+00:00' if arrow_type.tz else ''}"


def _time_text(stored_value: int, unit: str) -> str:
    seconds, fraction = divmod(stored_value, _UNITS[unit])
    digits = len(str(_UNITS[unit])) - 1
    seconds_text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{seconds_text}.{fraction:0{digits}}" if digits else seconds_text
