"""Value columns of every type with their edge cases, NULL included."""

from __future__ import annotations

from datetime import date, time
from decimal import Decimal
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
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_NAN, _INF = float("nan"), float("inf")
_MAX_DECIMAL = Decimal("9" * 28 + "." + "9" * 10)
# Microseconds: the year 1, just before 1970, the end of the year 9999.
_TIMESTAMPS = (-62_135_596_800_000_000, -1, 253_402_300_799_999_999)

_PLACE = StructType(
    NestedField(201, "floor", IntegerType(), required=False),
    NestedField(202, "shelf", StringType(), required=False),
    NestedField(203, "height", DoubleType(), required=False),
)
_PART = StructType(
    NestedField(211, "name", StringType(), required=False),
    NestedField(212, "sizes", ListType(213, DoubleType(), element_required=False), required=False),
)

# PyIceberg reads a NULL list of structs as an empty list (iceberg-python#3833).
MISREAD_BY_PYICEBERG = frozenset({"maybe_parts"})

VALUE_COLUMNS: dict[str, tuple[IcebergType, tuple[Any, ...]]] = {
    "flag": (BooleanType(), (True, False, None)),
    "small": (IntegerType(), (0, -1, 2**31 - 1, -(2**31), None)),
    "big": (LongType(), (0, -1, 2**63 - 1, -(2**63), 2**53 + 1, None)),
    "single": (FloatType(), (0.0, -0.0, 1.5, _NAN, _INF, -_INF, 1e-45, None)),
    "double": (DoubleType(), (0.0, -0.0, 0.1, _NAN, _INF, -_INF, 5e-324, 1.7976931348623157e308, None)),
    "amount": (
        DecimalType(38, 10),
        (Decimal(0), Decimal("-0.0000000001"), _MAX_DECIMAL, _MAX_DECIMAL.copy_negate(), None),
    ),
    "price": (DecimalType(9, 2), (Decimal("0.00"), Decimal("9999999.99"), Decimal("-0.01"), None)),
    "day": (DateType(), (date.min, date(1969, 12, 31), date(1970, 1, 1), date.max, None)),
    "clock": (TimeType(), (time.min, time(12, 34, 56, 789_012), time.max, None)),
    "moment": (TimestampType(), (*_TIMESTAMPS, None)),
    "instant": (TimestamptzType(), (*_TIMESTAMPS, None)),
    "text": (StringType(), ("", " ", "é", "e\u0301", "🎁", "a\u0000b", "NULL", "x" * 2000, None)),
    "ref": (UUIDType(), (b"\x00" * 16, b"\xff" * 16, bytes(range(16)), None)),
    "code": (FixedType(3), (b"\x00\x00\x00", b"abc", b"\xff\x00\xff", None)),
    "blob": (BinaryType(), (b"", b"\x00", b"\xff\xfe", b"~", b"3:abc", b"\x80" * 500, None)),
    "numbers": (
        ListType(301, DoubleType(), element_required=False),
        ([], [None], [0.0], [-0.0], [_NAN], [1.5, None, _INF], None),
    ),
    "words": (
        ListType(302, StringType(), element_required=False),
        ([], [""], [None], ["", ""], ["a", "bc"], ["ab", "c"], ["🎁", None], None),
    ),
    "place": (
        _PLACE,
        (
            {"floor": 1, "shelf": "a", "height": -0.0},
            {"floor": 1, "shelf": "a", "height": 0.0},
            {"floor": None, "shelf": None, "height": None},
            {"floor": -1, "shelf": "", "height": _NAN},
            None,
        ),
    ),
    "parts": (
        ListType(303, _PART, element_required=False),
        ([], [None], [{"name": None, "sizes": None}], [{"name": "a", "sizes": [1.0, None]}] * 2),
    ),
    "maybe_parts": (
        ListType(306, _PART, element_required=False),
        ([], [None], [{"name": "a", "sizes": None}], None),
    ),
    "counts": (
        MapType(304, StringType(), 305, LongType(), value_required=False),
        ([], [("a", 1)], [("a", None), ("b", -1)], None),
    ),
}
