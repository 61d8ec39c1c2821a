"""Types of PostgreSQL: what writers of changelogs make of them, and their values as text and as Arrow takes them."""

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

_ALIKE: Mapping[str, IcebergType] = {
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


def of_supabase_etl(kind: str) -> IcebergType:
    """The type of a column in a changelog of Supabase ETL; what has no counterpart is text."""
    if kind.endswith("[]"):
        return ListType(-1, of_supabase_etl(kind[:-2]), element_required=False)
    return _ALIKE.get(kind, StringType())


def of_debezium(kind: str) -> IcebergType:
    """The type that sinks of Debezium give to a column: numbers with digits after the point are exact, uuids text."""
    if kind.endswith("[]"):
        return ListType(-1, of_debezium(kind[:-2]), element_required=False)
    if digits := _NUMERIC.fullmatch(kind):
        return DecimalType(int(digits[1]), int(digits[2]))
    return StringType() if kind == "uuid" else of_supabase_etl(kind)


def parse(text: str, kind: IcebergType) -> Any:
    """A value as Arrow takes it, from PostgreSQL's text."""
    if isinstance(kind, ListType):
        return [None if one is None else parse(one, kind.element_type) for one in _elements(text)]
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
    """The elements of an array of one dimension: `{1,NULL,"a \\"b\\""}`."""
    found = _ELEMENT.finditer(text[1:-1])
    return [
        re.sub(r"\\(.)", r"\1", one[1], flags=re.DOTALL)
        if one[2] is None
        else None
        if one[2] == "NULL"
        else one[2]
        for one in found
    ]


def default(kind: IcebergType) -> Any:
    """What Supabase ETL writes for a value that it was not told."""
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
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def selected(name: str, kind: str, iceberg: IcebergType) -> str:
    """The column in a SELECT, so that what psycopg2 makes of it is what the changelog's type holds."""
    as_text = isinstance(iceberg, StringType) and not kind.startswith(("character", "text"))
    return f"{quoted(name)}::text" if as_text else quoted(name)


def taken(value: Any) -> Any:
    """A value that psycopg2 read, as Arrow takes it."""
    match value:
        case memoryview():
            return bytes(value)
        case UUID():
            return value.bytes
        case _:
            return value
