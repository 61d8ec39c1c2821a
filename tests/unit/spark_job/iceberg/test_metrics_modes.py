from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType, TimestampType

from icemirror.errors import Invalid
from spark_job.iceberg.metrics_modes import COUNTS, DEFAULT_MODE, FULL, NONE, MetricsMode, metrics_modes

INNER = StructType(NestedField(5, "x", LongType()), NestedField(6, "y", LongType()))
SCHEMA = Schema(
    NestedField(1, "place", INNER),
    NestedField(2, "id", LongType()),
    NestedField(3, "words", ListType(7, StringType())),
    NestedField(4, "at", TimestampType()),
)
DEFAULT = "write.metadata.metrics.default"
MAX_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"


def test_bounds_are_truncated_to_16_by_default() -> None:
    assert metrics_modes(SCHEMA, {}, UNSORTED_SORT_ORDER) == dict.fromkeys((2, 4, 5, 6, 7), DEFAULT_MODE)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("none", NONE),
        ("Counts", COUNTS),
        ("FULL", FULL),
        ("truncate(3)", MetricsMode(True, 3)),
        ("truncate(0)", DEFAULT_MODE),
    ],
)
def test_default_mode_applies_to_all_columns(text: str, mode: MetricsMode) -> None:
    assert metrics_modes(SCHEMA, {DEFAULT: text}, UNSORTED_SORT_ORDER) == dict.fromkeys((2, 4, 5, 6, 7), mode)


def test_column_mode_is_set_by_the_full_column_name() -> None:
    properties = {
        "write.metadata.metrics.column.place.x": "none",
        "write.metadata.metrics.column.place": "full",
    }
    found = metrics_modes(SCHEMA, properties, UNSORTED_SORT_ORDER)
    assert (found[5], found[6]) == (NONE, DEFAULT_MODE)


@pytest.mark.parametrize(
    ("limit", "kept"), [("5", {2, 4, 5, 6, 7}), ("3", {2, 4, 5}), ("0", set()), ("-1", {2, 4, 5, 6, 7})]
)
def test_wide_tables_keep_statistics_of_the_outermost_columns(limit: str, kept: set[int]) -> None:
    found = metrics_modes(SCHEMA, {MAX_COLUMNS: limit}, UNSORTED_SORT_ORDER)
    assert {field_id for field_id, mode in found.items() if mode == DEFAULT_MODE} == kept


def test_sort_columns_have_bounds() -> None:
    order = SortOrder(
        SortField(2, BucketTransform(4)), SortField(4, DayTransform()), SortField(5, IdentityTransform())
    )
    found = metrics_modes(SCHEMA, {DEFAULT: "counts"}, order)
    assert found == {2: COUNTS, 4: DEFAULT_MODE, 5: DEFAULT_MODE, 6: COUNTS, 7: COUNTS}


def test_limit_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(Invalid, match=MAX_COLUMNS):
        metrics_modes(SCHEMA, {MAX_COLUMNS: "many"}, UNSORTED_SORT_ORDER)
