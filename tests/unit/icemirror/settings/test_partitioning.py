from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icemirror.settings.partitioning import PartitionField, Transform


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("day(created_at)", PartitionField("day", None, "created_at")),
        ("hour( ts )", PartitionField("hour", None, "ts")),
        ("month(ts)", PartitionField("month", None, "ts")),
        ("year(ts)", PartitionField("year", None, "ts")),
        ("bucket[16](id)", PartitionField("bucket", 16, "id")),
        ("truncate[4](name)", PartitionField("truncate", 4, "name")),
        ("identity(region)", PartitionField("identity", None, "region")),
        ("region", PartitionField("identity", None, "region")),
        ("address.city", PartitionField("identity", None, "address.city")),
        ("day", PartitionField("identity", None, "day")),
    ],
)
def test_expressions_are_parsed(text: str, field: PartitionField) -> None:
    assert PartitionField.parse(text) == field


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a partition"),
        ("day()", "is not a partition"),
        ("day(ts", "is not a partition"),
        ("(ts)", "unknown transform ''"),
        ("days(ts)", "did you mean day?"),
        ("void(ts)", "use one of identity, year"),
        ("bucket(id)", "bucket needs a number, as in bucket\\[16\\]"),
        ("bucket(16, id)", "one column, as in bucket\\[16\\]"),
        ("bucket[0](id)", "whole number from 1"),
        ("bucket[x](id)", "whole number from 1"),
        ("truncate[99999999999](id)", "whole number from 1"),
        ("day[3](ts)", "day takes no number"),
    ],
)
def test_invalid_expressions_are_reported(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PartitionField.parse(text)


@given(
    st.sampled_from(get_args(Transform)),
    st.integers(1, 2**31 - 1),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,20}", fullmatch=True),
)
def test_partition_field_is_equal_after_a_round_trip(
    transform: Transform, argument: int, column: str
) -> None:
    field = PartitionField(transform, argument if transform in ("bucket", "truncate") else None, column)
    assert PartitionField.parse(str(field)) == field
