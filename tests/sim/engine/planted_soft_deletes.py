"""Defects in soft deletes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_job import pipeline
from spark_job.columns.added_columns import DELETED_FLAG
from spark_job.columns.parquet_columns import column_names, open_parquet, read_rows_at
from spark_job.merge import metadata_columns, unchanged_values, write_winners
from spark_job.plan.divergence import Diverged
from spark_job.rebuild import rebuild
from tests.sim.engine.planting import PLANTED, plant

_before = frozenset(PLANTED)


@plant((unchanged_values.UnchangedValues, "_find_missing_values"))
def values_lost_at_a_soft_delete(_find_missing_values: Any) -> Any:
    return lambda _self, _winners, _rows: {}


@plant((metadata_columns, "_column_values"))
def flag_not_cleared_by_an_insert(values: Any) -> Any:
    def defective(self: Any, role: str, winners: Any, sides: Any, index: Any) -> Any:
        flags = values(self, role, winners, sides, index)
        if role != DELETED_FLAG:
            return flags
        file, pos = metadata_columns._replaced_locations(winners, sides, index)
        values_after: list[bool] = flags.to_pylist()
        for at in np.flatnonzero(file >= 0):
            path = sides.mirror_paths[file[at]]
            with open_parquet(sides.mirror_io, path) as parquet:
                if self.ids[DELETED_FLAG] in column_names(parquet, path):
                    (flag,) = read_rows_at(parquet, path, (self.ids[DELETED_FLAG],), pos[at : at + 1])
                    values_after[at] = values_after[at] or bool(flag[0].as_py())
        return pa.array(values_after)

    return defective


@plant((rebuild, "_plan_stage"))
def rebuild_forgets_flagged_rows(plan: Any) -> Any:
    def defective(*arguments: Any) -> Any:
        staged = plan(*arguments)
        if isinstance(staged, Diverged):
            return staged
        return replace(staged, shape=replace(staged.shape, keeps_deleted_rows=False))

    return defective


@plant((pipeline, "keep_deleted_rows"))
def delete_of_an_absent_key_writes_no_row(keep: Any) -> Any:
    def defective(effects: Any) -> Any:
        alone = effects.tombstones & ~effects.removes
        kept = keep(replace(effects, tombstones=effects.tombstones & effects.removes))
        return replace(kept, tombstones=alone)

    return defective


@plant((unchanged_values.UnchangedValues, "_search_rows"))
def row_of_the_mirror_not_read_at_a_soft_delete(_search: Any) -> Any:
    return lambda *_arguments: None


@plant((unchanged_values.UnchangedValues, "_search_events"))
def update_before_a_soft_delete_not_read(_search: Any) -> Any:
    return lambda _self, search, _events, skip_last: np.zeros(len(search.keys), dtype=np.bool_)


@plant((unchanged_values.UnchangedValues, "_search_first_deletes"))
def last_of_two_deletes_gives_the_row(search_deletes: Any) -> Any:
    def defective(self: Any, search: Any, events: Any, may: Any) -> None:
        reversed_events = replace(events.events, sequence=np.iinfo(np.uint64).max - events.events.sequence)
        search_deletes(self, search, replace(events, events=reversed_events), may)

    return defective


@plant((write_winners, "restore_old_keys"))
def row_flagged_under_its_new_key(_restore: Any) -> Any:
    return lambda rows, *_arguments: rows


NAMES = frozenset(PLANTED) - _before
