"""PostgreSQL types: their Iceberg types by changelog writer, and conversion of values from text to Arrow."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_SAME_TYPE: Mapping[str, IcebergType] = {
    "boolean": BooleanType(),
    "smallint": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "real": FloatType(),
    "double precision": DoubleType(),
    "date": DateType(),
    "time without time zone": TimeType(),
    "timestamp without time zone": TimestampType(),
    "timestamp with time zone": TimestamptzType(),
    "uuid": UUIDType(),
    "bytea": BinaryType(),
}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}]+)')


def supabase_etl_type(kind: str) -> IcebergType:
    """Return the Iceberg type of a column in Supabase ETL; types without a counterpart are strings."""
    if kind.endswith("[]"):
        return ListType(-1, supabase_etl_type(kind[:-2]), element_required=False)
    return _SAME_TYPE.get(kind, StringType())


def debezium_type(kind: str) -> IcebergType:
    """Return the Iceberg type of a column in Debezium sinks: decimals are exact, UUIDs are strings."""
    if kind.endswith("[]"):
        return ListType(-1, debezium_type(kind[:-2]), element_required=False)
    if digits := _NUMERIC.fullmatch(kind):
        return DecimalType(int(digits[1]), int(digits[2]))
    return StringType() if kind == "uuid" else supabase_etl_type(kind)


def parse(text: str, kind: IcebergType) -> Any:
    """Convert PostgreSQL's text to a value for Arrow."""
    if isinstance(kind, ListType):
        return [None if element is None else parse(element, kind.element_type) for element in _elements(text)]
    return _PARSE[type(kind)](text)


_PARSE: Mapping[type[IcebergType], Callable[[str], Any]] = {
    BooleanType: lambda text: {"t": True, "f": False}[text],
    IntegerType: int,
    LongType: int,
    FloatType: float,
    DoubleType: float,
    DateType: dt.date.fromisoformat,
    TimeType: dt.time.fromisoformat,
    TimestampType: dt.datetime.fromisoformat,
    TimestamptzType: dt.datetime.fromisoformat,
    UUIDType: lambda text: UUID(text).bytes,
    BinaryType: lambda text: bytes.fromhex(text.removeprefix("\\x")),
    DecimalType: Decimal,
    StringType: str,
}


def _elements(text: str) -> list[str | None]:
    """Split an array of one dimension: `{1,NULL,"a \\"b\\""}`."""
    found = _ELEMENT.finditer(text[1:-1])
    return [
        re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL)
        if match[2] is None
        else None
        if match[2] == "NULL"
        else match[2]
        for match in found
    ]


def default(kind: IcebergType) -> Any:
    """Return the value that Supabase ETL writes for an omitted value."""
    return [] if isinstance(kind, ListType) else parse(_DEFAULT.get(type(kind), "0"), kind)


_DEFAULT: Mapping[type[IcebergType], str] = {
    BooleanType: "f",
    DateType: "1970-01-01",
    TimeType: "00:00:00",
    TimestampType: "1970-01-01 00:00:00",
    TimestamptzType: "1970-01-01 00:00:00+00",
    UUIDType: str(UUID(int=0)),
    BinaryType: "\\x",
    StringType: "",
}


def quoted(name: str) -> str:
    """Quote an identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def select_expression(name: str, kind: str, iceberg: IcebergType) -> str:
    """Return the SELECT expression of a column, so that psycopg2 returns a value of the changelog's type."""
    as_text = isinstance(iceberg, StringType) and not kind.startswith(("character", "text"))
    return f"{quoted(name)}::text" if as_text else quoted(name)


def to_arrow_value(value: Any) -> Any:
    """Convert a value from psycopg2 for Arrow."""
    match value:
        case memoryview():
            return bytes(value)
        case UUID():
            return value.bytes
        case _:
            return value
