"""Partition values equal those of the specification's calendar and hash, computed one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from spark_job.write.transform_columns import transform_column

INT, LONG = 2**31, 2**63
UNITS: dict[PrimitiveType, int] = {
    TimestampType(): 86_400_000_000,
    TimestamptzType(): 86_400_000_000,
    TimestampNanoType(): 86_400_000_000_000,
    TimestamptzNanoType(): 86_400_000_000_000,
}
longs = st.integers(-LONG, LONG - 1) | st.sampled_from([-LONG, -1, 0, 1, LONG - 1])


def transformed(
    kind: PrimitiveType, transform: Transform[Any, Any], numbers: list[int | None]
) -> list[int | None]:
    schema = Schema(NestedField(1, "v", kind, required=False))
    arrow = schema_to_pyarrow(schema)
    rows = pa.table([pa.array(numbers, arrow.field("v").type)], schema=arrow)
    values: list[int | None] = transform_column(rows, schema, 1, transform).to_pylist()
    return values


def months_of(day: int) -> int:
    """Return months since 1970 by the Gregorian rule: 400 years have 146,097 days."""
    day += 719_468  # since 1 March of year 0
    era, of_era = divmod(day, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153  # from March on
    return (year + 400 * era) * 12 + month + 2 - 1970 * 12


@given(st.lists(st.integers(-INT, INT - 1) | st.none(), max_size=5))
def test_years_and_months_of_random_dates(days: list[int | None]) -> None:
    months = [None if day is None else months_of(day) for day in days]
    assert transformed(DateType(), MonthTransform(), days) == months
    assert transformed(DateType(), YearTransform(), days) == [
        month if month is None else month // 12 for month in months
    ]
    assert transformed(DateType(), DayTransform(), days) == days


@pytest.mark.parametrize("kind", UNITS, ids=str)
@given(st.lists(longs | st.none(), max_size=5))
def test_years_months_days_and_hours_of_random_timestamps(
    kind: PrimitiveType, timestamps: list[int | None]
) -> None:
    days = [None if timestamp is None else timestamp // UNITS[kind] for timestamp in timestamps]
    assert transformed(kind, DayTransform(), timestamps) == days
    months = [None if day is None else months_of(day) for day in days]
    assert transformed(kind, MonthTransform(), timestamps) == months
    assert transformed(kind, YearTransform(), timestamps) == [
        month if month is None else month // 12 for month in months
    ]
    hours = [None if timestamp is None else timestamp * 24 // UNITS[kind] for timestamp in timestamps]
    assert transformed(kind, HourTransform(), timestamps) == [
        hour if hour is None else (hour + INT) % (2 * INT) - INT for hour in hours
    ]


@given(st.lists(longs | st.none(), max_size=5))
def test_nanoseconds_are_hashed_as_microseconds(nanos: list[int | None]) -> None:
    micros = [None if nano is None else nano // 1000 for nano in nanos]
    for count in (7, INT - 1):
        bucket: BucketTransform[Any] = BucketTransform(count)
        expected = transformed(LongType(), bucket, micros)
        assert transformed(TimestampNanoType(), bucket, nanos) == expected
        assert transformed(TimestamptzNanoType(), bucket, nanos) == expected


@pytest.mark.parametrize(("kind", "half"), [(IntegerType(), INT), (LongType(), LONG)], ids=str)
@given(data=st.data(), width=st.integers(1, INT - 1))
def test_numbers_are_truncated_downwards_and_wrap_around(
    kind: PrimitiveType, half: int, data: st.DataObject, width: int
) -> None:
    numbers = data.draw(st.lists(st.integers(-half, half - 1) | st.just(-half) | st.none(), max_size=5))
    expected = [
        None if number is None else (number - number % width + half) % (2 * half) - half for number in numbers
    ]
    assert transformed(kind, TruncateTransform(width), numbers) == expected
