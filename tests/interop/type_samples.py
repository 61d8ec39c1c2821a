"""Every Iceberg type, with values that have caused bugs. docs/reference/types.md is generated from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

INT, LONG = 2**31, 2**63
NAN, INF = float("nan"), float("inf")
MEGABYTE = 1 << 20
_DAY_MICROS = 86_400_000_000

# Days: the first of year 1, around the gap of 1582, around 1970, the last of year 9999.
DAYS = (-719_162, -141_428, -141_427, -1, 0, 11_016, 2_932_896)
FAR_DAYS = (-INT, -2_440_588, -719_163, 2_932_897, INT - 1)
MOMENTS = (-1, *(day * _DAY_MICROS + offset for offset, day in enumerate(DAYS)))
FAR_MOMENTS = (-LONG, -62_135_596_800_000_001, 253_402_300_800_000_000, LONG - 1)
NANOS = (-LONG, -1_000_000_001, -1001, -1000, -999, -1, 0, 1, 999, 1_700_000_000_000_000_001, LONG - 1)
TEXTS = (
    "", " ", "a ", "A", "é", "e\u0301", "ß", "花子", "🎁", "\u202eabc", "a\u0000b", "NULL", "\ue000", "\U0010ffff",
)  # fmt: skip
LONG_TEXTS = ("x" * MEGABYTE, "é🎁" * (MEGABYTE // 6), "x" * (MEGABYTE - 1) + "y")
BLOBS = (b"", b"\x00", b"\x00\x00", b"\xff\xfe", b"~", b"\x80" * 500)
UUIDS = tuple(number.to_bytes(16, "big") for number in (0, 1, 2**63, 2**64, 2**127 - 1, 2**127, 2**128 - 1))
CLOCKS = (0, 1, 45_296_789_012, _DAY_MICROS - 1)


@dataclass(frozen=True)
class Column:
    """A column and its values, by default with NULL."""

    kind: IcebergType
    values: Sequence[Any]


@dataclass(frozen=True)
class Sample:
    """A line of the page: columns that are read together. `since`: the first format version that has the type."""

    name: str
    values: str
    columns: Sequence[Column]
    since: int = 2
    nulls: bool = True
    key: bool = field(default=False, kw_only=True)


_ids = count(1000)


def _list(kind: IcebergType) -> ListType:
    return ListType(next(_ids), kind, element_required=False)


def _map(key: IcebergType, value: IcebergType) -> MapType:
    return MapType(next(_ids), key, next(_ids), value, value_required=False)


def _struct(**parts: IcebergType) -> StructType:
    return StructType(*(NestedField(next(_ids), name, kind, required=False) for name, kind in parts.items()))


def _single(kind: IcebergType, values: Sequence[Any]) -> tuple[Column]:
    return (Column(kind, values),)


def _exact_decimal(number: int, scale: int) -> Decimal:
    sign, digits = int(number < 0), tuple(map(int, str(abs(number))))
    return Decimal((sign, digits, -scale))


def _decimal(precision: int, scale: int) -> Column:
    """Return a column with zero, and the smallest and largest values of either sign."""
    numbers = (0, 1, -1, 10**precision - 1, 1 - 10**precision)
    return Column(DecimalType(precision, scale), [_exact_decimal(number, scale) for number in numbers])


DECIMALS = tuple(
    _decimal(precision, (0, precision // 2, precision)[precision % 3]) for precision in range(1, 39)
)

_LEAF = {"amount": Decimal("1.50"), "ref": UUIDS[1], "at": 1, "day": -1, "code": b"abc"}


def _deep() -> IcebergType:
    """Return a list of maps of structs of lists of lists of structs, and five nested structs."""
    leaf = _struct(amount=DecimalType(9, 2), ref=UUIDType(), at=TimeType(), day=DateType(), code=FixedType(3))
    nest = _struct(a=_struct(b=_struct(c=_struct(d=TimestamptzType(), e=StringType()))))
    return _list(_map(StringType(), _struct(grid=_list(_list(leaf)), nest=nest)))


_NEST = {"a": {"b": {"c": {"d": -1, "e": "🎁"}}}}
_DEEP: tuple[Any, ...] = (
    [],
    [[]],
    [[("k", {"grid": [], "nest": _NEST})]],
    [[("k", {"grid": [[], [_LEAF, _LEAF]], "nest": _NEST}), ("", {"grid": [[_LEAF]], "nest": _NEST})], []],
)
_DEEP_NULLS = (
    [None],
    [[("k", None)]],
    [[("k", {"grid": None, "nest": None})]],
    [[("k", {"grid": [None, [None]], "nest": {"a": None}})]],
    [[("k", {"grid": [[dict.fromkeys(_LEAF)]], "nest": {"a": {"b": None}}})]],
    [[("k", {"grid": [[_LEAF, None]], "nest": {"a": {"b": {"c": None}}}})], None],
    [[("k", {"grid": [[_LEAF]], "nest": {"a": {"b": {"c": {"d": None, "e": None}}}}})]],
)

SAMPLES = (
    Sample("boolean", "both", _single(BooleanType(), (True, False)), key=True),
    Sample("int", "0, −1, minimum, maximum", _single(IntegerType(), (0, -1, -INT, INT - 1)), key=True),
    Sample(
        "long",
        "0, −1, minimum, maximum, 2⁵³ + 1",
        _single(LongType(), (0, -1, -LONG, LONG - 1, 2**53 + 1)),
        key=True,
    ),
    Sample(
        "float",
        "0.0, −0.0, NaN, ±∞, smallest, maximum",
        _single(FloatType(), (0.0, -0.0, 1.5, NAN, INF, -INF, 1e-45, 3.4028234663852886e38)),
    ),
    Sample(
        "double",
        "0.0, −0.0, NaN, ±∞, smallest, maximum",
        _single(DoubleType(), (0.0, -0.0, 0.1, NAN, INF, -INF, 5e-324, 1.7976931348623157e308)),
    ),
    Sample(
        "decimal(1…38, …)",
        "every precision, with no, half or all digits after the point: 0, ±1 of the last digit, minimum, maximum",
        DECIMALS,
        key=True,
    ),
    Sample(
        "date", "0001-01-01, 1582-10-14 and -15, 1969-12-31, 9999-12-31", _single(DateType(), DAYS), key=True
    ),
    Sample(
        "date, outside years 1–9999",
        "4714 BC, year 0, year 10000, ±5.8 million years",
        _single(DateType(), FAR_DAYS),
        key=True,
    ),
    Sample("time", "first and last microsecond", _single(TimeType(), CLOCKS), key=True),
    Sample("timestamp", "years 1 to 9999, around 1582 and 1970", _single(TimestampType(), MOMENTS), key=True),
    Sample(
        "timestamp, outside years 1–9999",
        "year 0, year 10000, ±292,000 years",
        _single(TimestampType(), FAR_MOMENTS),
        key=True,
    ),
    Sample(
        "timestamptz", "years 1 to 9999, around 1582 and 1970", _single(TimestamptzType(), MOMENTS), key=True
    ),
    Sample(
        "timestamptz, outside years 1–9999",
        "year 0, year 10000, ±292,000 years",
        _single(TimestamptzType(), FAR_MOMENTS),
        key=True,
    ),
    Sample(
        "timestamp_ns", "1677 to 2262, around 1970", _single(TimestampNanoType(), NANOS), since=3, key=True
    ),
    Sample(
        "timestamptz_ns",
        "1677 to 2262, around 1970",
        _single(TimestamptzNanoType(), NANOS),
        since=3,
        key=True,
    ),
    Sample("string", "empty, blanks, Unicode of every plane, NUL", _single(StringType(), TEXTS), key=True),
    Sample("string, long", "1 MB", _single(StringType(), LONG_TEXTS), key=True),
    Sample("uuid", "minimum, maximum, around the sign bits", _single(UUIDType(), UUIDS), key=True),
    Sample(
        "fixed",
        "1, 3 and 16 bytes, zeros, ones",
        tuple(
            Column(FixedType(length), (b"\x00" * length, b"\xff" * length, bytes(range(1, length + 1))))
            for length in (1, 3, 16)
        ),
        key=True,
    ),
    Sample(
        "binary", "empty, zeros, ones, 1 MB", _single(BinaryType(), (*BLOBS, b"\x80" * MEGABYTE)), key=True
    ),
    Sample(
        "struct",
        "with and without values, NULL",
        _single(
            _struct(floor=IntegerType(), shelf=StringType(), height=DoubleType(), ref=UUIDType()),
            (
                {"floor": 1, "shelf": "a", "height": -0.0, "ref": UUIDS[1]},
                {"floor": None, "shelf": None, "height": None, "ref": None},
                {"floor": -1, "shelf": "", "height": NAN, "ref": UUIDS[-1]},
            ),
        ),
    ),
    Sample(
        "list",
        "empty, of NULL, NULL",
        (
            Column(_list(IntegerType()), ([], [None], [1, None, -INT], [INT - 1] * 3)),
            Column(_list(StringType()), ([], [""], [None], ["", ""], ["a", "bc"], ["ab", "c"], ["🎁", None])),
            Column(_list(UUIDType()), ([], [None], list(UUIDS))),
            Column(_list(TimeType()), ([], list(CLOCKS), [None])),
        ),
    ),
    Sample(
        "list of structs",
        "empty, of NULL, of structs of NULL",
        _single(
            _list(_struct(name=StringType(), sizes=_list(DoubleType()))),
            (
                [],
                [None],
                [{"name": None, "sizes": None}],
                [{"name": "a", "sizes": [1.0, None]}, {"name": "", "sizes": []}],
            ),
        ),
        nulls=False,
    ),
    Sample(
        "list of structs, NULL",
        "NULL and empty",
        _single(_list(_struct(name=StringType())), ([], [{"name": "a"}], None)),
        nulls=False,
    ),
    Sample(
        "map",
        "empty, values of NULL, NULL",
        (
            Column(_map(StringType(), LongType()), ([], [("a", 1)], [("a", None), ("", -LONG)])),
            Column(_map(DateType(), DecimalType(38, 10)), ([], [(-719_162, Decimal("1.5")), (0, None)])),
        ),
    ),
    Sample(
        "map of structs",
        "empty, values of NULL",
        _single(
            _map(LongType(), _struct(name=StringType())),
            ([], [(1, None)], [(1, {"name": "a"}), (2, {"name": None})]),
        ),
        nulls=False,
    ),
    Sample(
        "map of structs, NULL",
        "NULL and empty",
        _single(_map(LongType(), _struct(name=StringType())), ([], [(1, {"name": "a"})], None)),
        nulls=False,
    ),
    Sample("deep nesting", "eight levels of lists, maps and structs", _single(_deep(), _DEEP), nulls=False),
    Sample("deep nesting, NULL", "NULL at each level", _single(_deep(), _DEEP_NULLS)),
)

# Up to eight columns of every type that a key may have, in one key.
COMPOSITES = (
    Sample(
        "8 columns: boolean, int, long, decimal, date, time, timestamptz, uuid",
        "values of each as above",
        (
            Column(BooleanType(), (True, False)),
            Column(IntegerType(), (-INT, 0, INT - 1)),
            Column(LongType(), (-LONG, 0, LONG - 1)),
            _decimal(38, 10),
            Column(DateType(), DAYS),
            Column(TimeType(), CLOCKS),
            Column(TimestamptzType(), MOMENTS),
            Column(UUIDType(), UUIDS),
        ),
    ),
    Sample(
        "8 columns: string ×3, binary ×2, fixed, timestamp, decimal",
        "values whose concatenations are equal",
        (
            Column(StringType(), ("ab", "a", "", "", "1")),
            Column(StringType(), ("c", "bc", "abc", "", "2")),
            Column(StringType(), ("", "", "", "abc", "")),
            Column(BinaryType(), (b"", b"\x00", b"\x00\x00", b"")),
            Column(BinaryType(), (b"\x00", b"", b"\x00\x00")),
            Column(FixedType(3), (b"abc", b"\x00\x00\x00")),
            Column(TimestampType(), MOMENTS),
            _decimal(9, 2),
        ),
    ),
)
