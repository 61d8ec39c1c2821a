"""Parses the requested key from JSON by the types of the key columns. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_job.columns.json_values import Json, value_as_json
from spark_job.index.keys import Mask

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


class BadKey(ValueError):
    """The text is not a key of this table; the message states why, without the value."""


@dataclass(frozen=True)
class KeyColumn:
    """A key column and its requested value: as Iceberg stores it, and as file readers return it."""

    field: NestedField
    value: Any  # of the column's type; an integer for dates, times and timestamps
    array: pa.Array

    @property
    def as_json(self) -> Json:
        """The value as shown to the user."""
        is_uuid = isinstance(self.field.field_type, UUIDType)
        return str(UUID(bytes=self.value)) if is_uuid else value_as_json(self.array[0])

    def equals(self, column: pa.Array) -> Mask:
        """Return which rows of a column have the value."""
        kind = column.type
        if pa.types.is_temporal(kind):
            column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
            same = pc.equal(column, pa.scalar(self.value, column.type))
        else:
            same = pc.equal(column, self.array[0].cast(kind))
        found: Mask = same.fill_null(False).to_numpy(zero_copy_only=False)
        return found


@dataclass(frozen=True)
class RequestedKey:
    """The requested key; columns are in the order of the index."""

    columns: tuple[KeyColumn, ...]

    @property
    def arrays(self) -> list[pa.Array]:
        """The key as columns of one row."""
        return [column.array for column in self.columns]

    @property
    def as_json(self) -> dict[str, Json]:
        """The values by column name."""
        return {column.field.name: column.as_json for column in self.columns}

    def rows(self, columns: Sequence[pa.Array]) -> Mask:
        """Return which rows of the key columns have this key."""
        found = np.ones(len(columns[0]), dtype=np.bool_)
        for key_column, column in zip(self.columns, columns, strict=True):
            found &= key_column.equals(column)
        return found


def parse_key(text: str, fields: Sequence[NestedField]) -> RequestedKey:
    """Parse an object with all key columns, or a bare value if there is only one column."""
    given = _load(text)
    if not isinstance(given, dict):
        if len(fields) > 1:
            raise BadKey(
                f"the key has {len(fields)} columns: give an object of all of them, {_example(fields)}"
            )
        given = {fields[0].name: given}
    names = [field.name for field in fields]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; the key is {', '.join(names)}"
            raise BadKey(f"{name} is not a key column{hint}")
    missing = [name for name in names if name not in given]
    if missing:
        raise BadKey(f"{', '.join(missing)} is missing: the key is {', '.join(names)}")
    return RequestedKey(tuple(_column(field, given[field.name]) for field in fields))


def _example(fields: Sequence[NestedField]) -> str:
    return "{" + ", ".join(f'"{field.name}": …' for field in fields) + "}"


def _load(text: str) -> Json:
    def once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        if len(dict(pairs)) < len(pairs):
            raise BadKey("a column is given twice")
        return dict(pairs)

    def refuse(_: str) -> Json:
        raise BadKey("not valid JSON: NaN and Infinity are not allowed")

    try:
        return json.loads(text, parse_float=Decimal, parse_constant=refuse, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise BadKey(
            f"not valid JSON ({error.msg}, character {error.pos + 1}). Quote text twice: --key '\"some text\"'"
        ) from None
    except (RecursionError, ValueError) as error:
        raise error if isinstance(error, BadKey) else BadKey("not valid JSON of a key") from None


def _column(field: NestedField, given: Json) -> KeyColumn:
    kind = field.field_type
    if given is None:
        raise BadKey(f"{field.name} is NULL, but a key column is never NULL")
    form = _value_format(kind)
    try:
        value = form.read(given)
    except TypeError:
        found = _NAMES.get(type(given), "something else")
        raise BadKey(f"{field.name} is of type {kind}: expected {form.expected}, found {found}") from None
    except (ValueError, OverflowError, InvalidOperation):
        raise BadKey(f"{field.name} is of type {kind}: expected {form.expected}") from None
    return KeyColumn(field, value, _array(value, form.arrow))


_NAMES = {
    bool: "true or false",
    int: "a whole number",
    Decimal: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True)
class _ValueFormat:
    """How values of a type are written in JSON, and how they are parsed."""

    expected: str
    read: Callable[[Json], Any]
    arrow: pa.DataType


def _array(value: Any, kind: pa.DataType) -> pa.Array:  # noqa: ANN401 (of the type of the column)
    if not pa.types.is_temporal(kind):
        return pa.array([value], kind)
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array([value], width).view(kind)


def _value_format(kind: IcebergType) -> _ValueFormat:
    """Return the format of a type; its Arrow type is the one that file readers return."""
    match kind:
        case IntegerType():
            return _ValueFormat(
                "a whole number of 32 bits", lambda given: _whole_number(given, _INT_BITS), pa.int64()
            )
        case LongType():
            return _ValueFormat(
                "a whole number of 64 bits", lambda given: _whole_number(given, _LONG_BITS), pa.int64()
            )
        case BooleanType():
            return _ValueFormat("true or false", lambda given: _require_type(bool, given), pa.bool_())
        case StringType():
            return _ValueFormat("text in double quotes", lambda given: _encodable(given), pa.large_string())
        case UUIDType():
            return _ValueFormat(
                "text such as f79c3e09-677c-4bbd-a479-3f349cb785e7",
                lambda given: UUID(_require_type(str, given)).bytes,
                pa.binary(16),
            )
        case FixedType():
            size = len(kind)
            expected = f"text of {2 * size} hexadecimal digits"
            return _ValueFormat(expected, lambda given: _bytes(given, size), pa.binary(size))
        case BinaryType():
            expected = "text of hexadecimal digits, two for each byte"
            return _ValueFormat(expected, lambda given: _bytes(given, None), pa.large_binary())
        case DecimalType():
            return _ValueFormat(
                f"a number, as text too, with at most {kind.scale} digits after the point",
                lambda given: _decimal(given, kind),
                pa.decimal128(_MAX_DIGITS, kind.scale),
            )
        case DateType():
            return _ValueFormat(
                "text such as 2017-11-16", lambda given: _days(_match(_ONLY_DATE, given)), pa.date32()
            )
        case TimeType():
            expected = "text such as 22:31:08.123456"
            return _ValueFormat(expected, lambda given: _micros(_match(_ONLY_TIME, given)), pa.time64("us"))
        case TimestampType() | TimestampNanoType():
            unit = "us" if isinstance(kind, TimestampType) else "ns"
            return _ValueFormat(
                "text such as 2017-11-16T22:31:08.123456, without an offset",
                lambda given: _timestamp(given, unit, offset=False),
                pa.timestamp(unit),
            )
        case TimestamptzType() | TimestamptzNanoType():
            unit = "us" if isinstance(kind, TimestamptzType) else "ns"
            return _ValueFormat(
                "text such as 2017-11-16T22:31:08.123456+00:00, with an offset or Z",
                lambda given: _timestamp(given, unit, offset=True),
                pa.timestamp(unit, "UTC"),
            )
        case _:
            raise BadKey(f"a column of type {kind} cannot be a key")


def _require_type(kind: type, given: Json) -> Any:  # noqa: ANN401 (of that type)
    if type(given) is not kind:
        raise TypeError
    return given


def _whole_number(given: Json, bits: int) -> int:
    number: int = _require_type(int, given)
    if not -(1 << bits) <= number < 1 << bits:
        raise OverflowError
    return number


def _encodable(given: Json) -> str:
    text: str = _require_type(str, given)
    text.encode()
    return text


def _bytes(given: Json, size: int | None) -> bytes:
    value = bytes.fromhex(_require_type(str, given))
    if size is not None and len(value) != size:
        raise ValueError
    return value


def _decimal(given: Json, kind: DecimalType) -> Decimal:
    number = Decimal(given if type(given) in (int, Decimal) else _require_type(str, given))
    exact = number.quantize(Decimal(1).scaleb(-kind.scale), context=_DIGITS)
    if exact != number or len(exact.as_tuple().digits) > kind.precision:
        raise ValueError
    return exact


def _match(pattern: re.Pattern[str], given: Json) -> re.Match[str]:
    found = pattern.fullmatch(_require_type(str, given))
    if found is None:
        raise ValueError
    return found


def _days(found: re.Match[str]) -> int:
    return int(np.datetime64(found["date"], "D").astype(np.int64))


def _nanos(found: re.Match[str]) -> int:
    """Return the nanoseconds since midnight."""
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    return (hour * 3600 + minute * 60 + second) * _NANO + int((found["fraction"] or "0").ljust(9, "0"))


def _micros(found: re.Match[str]) -> int:
    return _divide_exactly(_nanos(found), 1000)


def _divide_exactly(number: int, part: int) -> int:
    whole, rest = divmod(number, part)
    if rest:
        raise ValueError
    return whole


def _timestamp(given: Json, unit: str, *, offset: bool) -> int:
    found = _match(_TIMESTAMP, given)
    if (found["offset"] is not None) is not offset:
        raise ValueError
    nanos = _days(found) * _DAY_SECONDS * _NANO + _nanos(found)
    if offset and found["offset"] != "Z":
        hours, minutes = int(found["offset"][1:3]), int(found["offset"][4:])
        shift = (hours * 3600 + minutes * 60) * _NANO
        nanos += shift if found["offset"][0] == "-" else -shift
    return _whole_number(_divide_exactly(nanos, 1000 if unit == "us" else 1), _LONG_BITS)
