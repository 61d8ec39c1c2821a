"""Mistakes about deletes that keep their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_job import own_values, shard
from spark_job.columns.own_columns import DELETED
from spark_job.columns.parquet_columns import column_names, open_parquet, read_at
from spark_job.replays import rebuild
from spark_job.unchanged import old_values
from tests.sim.engine.planting import BUGS, plant

_before = frozenset(BUGS)


@plant((old_values.OldValues, "_left_out"))
def values_lost_at_a_soft_delete(_left_out: Any) -> Any:
    return lambda _self, _winners, _rows: {}


@plant((own_values.OwnValues, "_values"))
def flag_not_cleared_by_an_insert(values: Any) -> Any:
    def wrong(self: Any, role: str, winners: Any, sides: Any, index: Any) -> Any:
        flags = values(self, role, winners, sides, index)
        if role != DELETED:
            return flags
        file, pos = own_values._places(winners, sides, index)
        told: list[bool] = flags.to_pylist()
        for at in np.flatnonzero(file >= 0):
            path = sides.mirror_paths[file[at]]
            with open_parquet(sides.mirror_io, path) as parquet:
                if self.ids[DELETED] in column_names(parquet, path):
                    (flag,) = read_at(parquet, path, (self.ids[DELETED],), pos[at : at + 1])
                    told[at] = told[at] or bool(flag[0].as_py())
        return pa.array(told)

    return wrong


@plant((rebuild, "_survey"))
def rebuild_forgets_flagged_rows(survey: Any) -> Any:
    def wrong(*given: Any) -> Any:
        staged = survey(*given)
        return replace(staged, shape=replace(staged.shape, keeps_deleted=False))

    return wrong


@plant((shard, "keep_deleted"))
def delete_of_an_absent_key_makes_no_row(keep: Any) -> Any:
    def wrong(fate: Any) -> Any:
        alone = fate.tombstones & ~fate.removes
        kept = keep(replace(fate, tombstones=fate.tombstones & fate.removes))
        return replace(kept, tombstones=alone)

    return wrong


@plant((old_values.OldValues, "_ask_rows"))
def row_of_the_mirror_not_asked_at_a_soft_delete(_ask: Any) -> Any:
    return lambda *_given: None


@plant((old_values.OldValues, "_ask_events"))
def update_before_a_soft_delete_not_asked(_ask: Any) -> Any:
    return lambda _self, search, _told, skip_last: np.zeros(len(search.keys), dtype=np.bool_)


@plant((old_values.OldValues, "_ask_first_deletes"))
def last_of_two_deletes_tells_the_row(ask: Any) -> Any:
    def wrong(self: Any, search: Any, told: Any, may: Any) -> None:
        turned = replace(told.events, sequence=np.iinfo(np.uint64).max - told.events.sequence)
        ask(self, search, replace(told, events=turned), may)

    return wrong


@plant((shard, "with_keys_left"))
def row_flagged_under_the_key_that_it_went_to(_with: Any) -> Any:
    return lambda rows, *_given: rows


NAMES = frozenset(BUGS) - _before
