"""Mistakes in putting small data files together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spark_job.compaction import compact, move_rows
from spark_job.files.written import written_before_commit
from tests.sim.engine.planting import BUGS, plant

_before = frozenset(BUGS)


@plant((move_rows, "deleted_positions"))
def deleted_rows_moved_with_the_others(_find: Any) -> Any:
    return lambda _io, _files: {}


@plant((compact, "_check_moved"), (compact, "move_rows"))
def a_file_forgotten_when_rows_move(right: Any) -> Any:
    if right is compact._check_moved:
        return lambda _moved, _chosen: None

    def wrong(mirror: Any, root: Any, shape: Any, chosen: Any, *given: Any) -> Any:
        full = [file for file in chosen if file.rows > file.deleted]
        return replace(right(mirror, root, shape, full[1:] or full, *given), group=chosen)

    return wrong


@plant((move_rows, "look_up"))
def moved_rows_lose_their_order(look_up: Any) -> Any:
    def wrong(*given: Any) -> Any:
        known = look_up(*given)
        return replace(known, orders=np.zeros_like(known.orders))

    return wrong


@plant((compact, "deletes_only_of"))
def deletes_of_others_go_with_files_that_moved(_choose: Any) -> Any:
    return lambda gone, _kept: list({one.key: one for file in gone for one in file.deletes}.values())


@plant((compact, "next_root"))
def files_that_moved_stay_in_the_index(next_root: Any) -> Any:
    return lambda mirror, before, moved, _gone: next_root(mirror, before, moved, set())


@plant((compact, "next_root"))
def moved_rows_indexed_behind_the_others(next_root: Any) -> Any:
    def wrong(mirror: Any, before: Any, moved: Any, gone: Any) -> Any:
        root = next_root(mirror, before, moved, gone)
        return root.model_copy(update={"segments": (*root.segments[1:], root.segments[0])})

    return wrong


@plant((compact, "next_root"))
def epoch_not_raised_when_rows_move(next_root: Any) -> Any:
    def wrong(mirror: Any, before: Any, moved: Any, gone: Any) -> Any:
        return next_root(replace(mirror, epoch=mirror.epoch - 1), before, moved, gone)

    return wrong


@plant((compact, "written_for_commit"))
def files_of_an_unknown_compaction_discarded(_keeps: Any) -> Any:
    return written_before_commit


NAMES = frozenset(BUGS) - _before
