"""Mistakes in soft deletes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_job import pipeline
from spark_job.columns.added_columns import DELETED
from spark_job.columns.parquet_columns import column_names, open_parquet, read_rows_at
from spark_job.merge import metadata_columns as own_values
from spark_job.merge import unchanged_values as old_values
from spark_job.merge import write_winners
from spark_job.plan.divergence import Diverged
from spark_job.rebuild import rebuild
from tests.sim.engine.planting import PLANTED, plant

_before = frozenset(PLANTED)


@plant((old_values.UnchangedValues, "_kept_values"))
def values_lost_at_a_soft_delete(_left_out: Any) -> Any:
    return lambda _self, _winners, _rows: {}


@plant((own_values, "_column_values"))
def flag_not_cleared_by_an_insert(values: Any) -> Any:
    def wrong(self: Any, role: str, winners: Any, sides: Any, index: Any) -> Any:
        flags = values(self, role, winners, sides, index)
        if role != DELETED:
            return flags
        file, pos = own_values._replaced_locations(winners, sides, index)
        told: list[bool] = flags.to_pylist()
        for at in np.flatnonzero(file >= 0):
            path = sides.mirror_paths[file[at]]
            with open_parquet(sides.mirror_io, path) as parquet:
                if self.ids[DELETED] in column_names(parquet, path):
                    (flag,) = read_rows_at(parquet, path, (self.ids[DELETED],), pos[at : at + 1])
                    told[at] = told[at] or bool(flag[0].as_py())
        return pa.array(told)

    return wrong


@plant((rebuild, "_plan_stage"))
def rebuild_forgets_flagged_rows(plan: Any) -> Any:
    def wrong(*given: Any) -> Any:
        staged = plan(*given)
        if isinstance(staged, Diverged):
            return staged
        return replace(staged, shape=replace(staged.shape, keeps_deleted_rows=False))

    return wrong


@plant((pipeline, "keep_deleted_rows"))
def delete_of_an_absent_key_writes_no_row(keep: Any) -> Any:
    def wrong(fate: Any) -> Any:
        alone = fate.tombstones & ~fate.removes
        kept = keep(replace(fate, tombstones=fate.tombstones & fate.removes))
        return replace(kept, tombstones=alone)

    return wrong


@plant((old_values.UnchangedValues, "_search_rows"))
def row_of_the_mirror_not_read_at_a_soft_delete(_ask: Any) -> Any:
    return lambda *_given: None


@plant((old_values.UnchangedValues, "_search_events"))
def update_before_a_soft_delete_not_read(_ask: Any) -> Any:
    return lambda _self, search, _told, skip_last: np.zeros(len(search.keys), dtype=np.bool_)


@plant((old_values.UnchangedValues, "_search_first_deletes"))
def last_of_two_deletes_gives_the_row(ask: Any) -> Any:
    def wrong(self: Any, search: Any, told: Any, may: Any) -> None:
        turned = replace(told.events, sequence=np.iinfo(np.uint64).max - told.events.sequence)
        ask(self, search, replace(told, events=turned), may)

    return wrong


@plant((write_winners, "restore_old_keys"))
def row_flagged_under_its_new_key(_with: Any) -> Any:
    return lambda rows, *_given: rows


NAMES = frozenset(PLANTED) - _before
