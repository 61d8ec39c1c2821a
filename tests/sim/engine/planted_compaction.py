"""Defects in compaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spark_job.maintenance import compact, move_rows
from spark_job.storage.discard import discard_on_error
from tests.sim.engine.planting import PLANTED, plant

_before = frozenset(PLANTED)


@plant((move_rows, "read_deleted_positions"))
def deleted_rows_moved_too(_find: Any) -> Any:
    return lambda _io, _files: {}


@plant((compact, "_check_moved"), (compact, "move_rows"))
def file_forgotten_in_a_compaction(right: Any) -> Any:
    if right is compact._check_moved:
        return lambda _moved, _chosen: None

    def defective(mirror: Any, root: Any, shape: Any, chosen: Any, *arguments: Any) -> Any:
        full = [file for file in chosen if file.live_rows > 0]
        return replace(right(mirror, root, shape, full[1:] or full, *arguments), group=chosen)

    return defective


@plant((move_rows, "read_key_entries"))
def moved_rows_lose_their_order(look_up: Any) -> Any:
    def defective(*arguments: Any) -> Any:
        known = look_up(*arguments)
        return replace(known, orders=np.zeros_like(known.orders))

    return defective


@plant((compact, "exclusive_deletes"))
def deletes_of_other_files_removed_in_a_compaction(_choose: Any) -> Any:
    return lambda removed, _kept: list(
        {delete.key: delete for file in removed for delete in file.deletes}.values()
    )


@plant((compact, "root_after_compaction"))
def compacted_files_stay_in_the_index(root_after_compaction: Any) -> Any:
    return lambda mirror, before, moved, _removed: root_after_compaction(mirror, before, moved, set())


@plant((compact, "root_after_compaction"))
def moved_rows_indexed_in_the_oldest_run(root_after_compaction: Any) -> Any:
    def defective(mirror: Any, before: Any, moved: Any, removed: Any) -> Any:
        root = root_after_compaction(mirror, before, moved, removed)
        return root.model_copy(update={"segments": (*root.segments[1:], root.segments[0])})

    return defective


@plant((compact, "root_after_compaction"))
def epoch_not_raised_by_a_compaction(root_after_compaction: Any) -> Any:
    def defective(mirror: Any, before: Any, moved: Any, removed: Any) -> Any:
        return root_after_compaction(replace(mirror, epoch=mirror.epoch - 1), before, moved, removed)

    return defective


@plant((compact, "discard_unless_committed"))
def files_of_an_unknown_compaction_discarded(_discard: Any) -> Any:
    return discard_on_error


NAMES = frozenset(PLANTED) - _before
