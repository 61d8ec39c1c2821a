"""Mistakes with tables that have no key."""

from __future__ import annotations

from typing import Any

from spark_job import append_rows, merge_slice
from tests.sim.engine.planting import BUGS, plant

_before = frozenset(BUGS)


@plant((append_rows, "in_order"))
def last_row_without_a_key_forgotten(in_order: Any) -> Any:
    def wrong(changes: Any) -> Any:
        ordered = in_order(changes)
        return ordered.take(slice(0, max(len(ordered) - 1, 1)))

    return wrong


@plant((merge_slice, "counted"))
def rows_without_a_key_that_others_removed_still_counted(_counted: Any) -> Any:
    return lambda mirror: mirror


NAMES = frozenset(BUGS) - _before
