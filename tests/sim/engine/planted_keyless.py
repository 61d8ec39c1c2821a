"""Defects in tables without a key."""

from __future__ import annotations

from typing import Any

from spark_job.maintenance import repair_index
from spark_job.merge import append_rows
from tests.sim.engine.planting import PLANTED, plant

_before = frozenset(PLANTED)


@plant((append_rows, "sort_by_position"))
def last_row_without_a_key_forgotten(sort_by_position: Any) -> Any:
    def defective(changes: Any) -> Any:
        ordered = sort_by_position(changes)
        return ordered.take(slice(0, max(len(ordered) - 1, 1)))

    return defective


@plant((repair_index, "count_live_rows"))
def removed_rows_without_a_key_still_counted(_count: Any) -> Any:
    return lambda mirror: mirror


NAMES = frozenset(PLANTED) - _before
