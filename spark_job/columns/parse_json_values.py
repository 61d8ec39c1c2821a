"""Parses values from JSON by their Iceberg type: the inverse of `json_values`, for types that keys can have. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_job.columns.json_values import Json

_DATE = r"(?P<date>-?\d{4,6}-\d\d-\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
_OFFSET = r"(?P<offset>Z|[+-]\d\d:\d\d)?"
_ONLY_DATE, _ONLY_TIME = re.compile(_DATE), re.compile(_TIME)
_TIMESTAMP = re.compile(rf"{_DATE}[T ]{_TIME}{_OFFSET}")
_DAY_SECONDS = 86_400
_NANO = 1_000_000_000
_MAX_DIGITS = 38
_DIGITS = Context(prec=2 * _MAX_DIGITS)
_INT_BITS, _LONG_BITS = 31, 63


@dataclass(frozen=True)
class JsonFormat:
    """How values of a type are written in JSON, and how they are parsed."""

    expected: str
    parse: Callable[[Json], Any]  # Any: of the type; an integer for dates, times and timestamps
    arrow_type: pa.DataType


def to_arrow(value: Any, arrow_type: pa.DataType) -> pa.Array:  # noqa: ANN401 (of the type of the column)
    """Return an array with one parsed value."""
    if not pa.types.is_temporal(arrow_type):
        return pa.array([value], arrow_type)
    integer_type = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
    return pa.array([value], integer_type).view(arrow_type)


def find_json_format(iceberg_type: IcebergType) -> JsonFormat | None:
    """Return the format of a type; None for floats and nested types. `arrow_type`: as file readers return it."""
    match iceberg_type:
        case IntegerType():
            return JsonFormat(
                "a whole number of 32 bits", lambda value: _parse_integer(value, _INT_BITS), pa.int64()
            )
        case LongType():
            return JsonFormat(
                "a whole number of 64 bits", lambda value: _parse_integer(value, _LONG_BITS), pa.int64()
            )
        case BooleanType():
            return JsonFormat("true or false", lambda value: _require_type(bool, value), pa.bool_())
        case StringType():
            return JsonFormat("text in double quotes", lambda value: _parse_text(value), pa.large_string())
        case UUIDType():
            return JsonFormat(
                "text such as f79c3e09-677c-4bbd-a479-3f349cb785e7",
                lambda value: UUID(_require_type(str, value)).bytes,
                pa.binary(16),
            )
        case FixedType():
            size = len(iceberg_type)
            expected = f"text of {2 * size} hexadecimal digits"
            return JsonFormat(expected, lambda value: _parse_hex(value, size), pa.binary(size))
        case BinaryType():
            expected = "text of hexadecimal digits, two for each byte"
            return JsonFormat(expected, lambda value: _parse_hex(value, None), pa.large_binary())
        case DecimalType():
            return JsonFormat(
                f"a number, as text too, with at most {iceberg_type.scale} digits after the point",
                lambda value: _parse_decimal(value, iceberg_type),
                pa.decimal128(_MAX_DIGITS, iceberg_type.scale),
            )
        case DateType():
            return JsonFormat(
                "text such as 2017-11-16", lambda value: _days(_match(_ONLY_DATE, value)), pa.date32()
            )
        case TimeType():
            expected = "text such as 22:31:08.123456"
            return JsonFormat(expected, lambda value: _micros(_match(_ONLY_TIME, value)), pa.time64("us"))
        case TimestampType() | TimestampNanoType():
            unit = "us" if isinstance(iceberg_type, TimestampType) else "ns"
            return JsonFormat(
                "text such as 2017-11-16T22:31:08.123456, without an offset",
                lambda value: _parse_timestamp(value, unit, has_offset=False),
                pa.timestamp(unit),
            )
        case TimestamptzType() | TimestamptzNanoType():
            unit = "us" if isinstance(iceberg_type, TimestamptzType) else "ns"
            return JsonFormat(
                "text such as 2017-11-16T22:31:08.123456+00:00, with an offset or Z",
                lambda value: _parse_timestamp(value, unit, has_offset=True),
                pa.timestamp(unit, "UTC"),
            )
        case _:
            return None


def _require_type(python_type: type, value: Json) -> Any:  # noqa: ANN401 (of that type)
    if type(value) is not python_type:
        raise TypeError
    return value


def _parse_integer(value: Json, bits: int) -> int:
    number: int = _require_type(int, value)
    if not -(1 << bits) <= number < 1 << bits:
        raise OverflowError
    return number


def _parse_text(value: Json) -> str:
    text: str = _require_type(str, value)
    text.encode()
    return text


def _parse_hex(value: Json, size: int | None) -> bytes:
    parsed = bytes.fromhex(_require_type(str, value))
    if size is not None and len(parsed) != size:
        raise ValueError
    return parsed


def _parse_decimal(value: Json, decimal_type: DecimalType) -> Decimal:
    number = Decimal(value if type(value) in (int, Decimal) else _require_type(str, value))
    exact = number.quantize(Decimal(1).scaleb(-decimal_type.scale), context=_DIGITS)
    if exact != number or len(exact.as_tuple().digits) > decimal_type.precision:
        raise ValueError
    return exact


def _match(pattern: re.Pattern[str], value: Json) -> re.Match[str]:
    match = pattern.fullmatch(_require_type(str, value))
    if match is None:
        raise ValueError
    return match


def _days(match: re.Match[str]) -> int:
    return int(np.datetime64(match["date"], "D").astype(np.int64))


def _nanos(match: re.Match[str]) -> int:
    """Return the nanoseconds since midnight."""
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    return (hour * 3600 + minute * 60 + second) * _NANO + int((match["fraction"] or "0").ljust(9, "0"))


def _micros(match: re.Match[str]) -> int:
    return _divide_exactly(_nanos(match), 1000)


def _divide_exactly(number: int, divisor: int) -> int:
    quotient, remainder = divmod(number, divisor)
    if remainder:
        raise ValueError
    return quotient


def _parse_timestamp(value: Json, unit: str, *, has_offset: bool) -> int:
    match = _match(_TIMESTAMP, value)
    if (match["offset"] is not None) is not has_offset:
        raise ValueError
    nanos = _days(match) * _DAY_SECONDS * _NANO + _nanos(match)
    if has_offset and match["offset"] != "Z":
        hours, minutes = int(match["offset"][1:3]), int(match["offset"][4:])
        shift = (hours * 3600 + minutes * 60) * _NANO
        nanos += shift if match["offset"][0] == "-" else -shift
    return _parse_integer(_divide_exactly(nanos, 1000 if unit == "us" else 1), _LONG_BITS)
