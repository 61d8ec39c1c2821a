"""Defects in following truncations of the source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from icemirror.tables.cursor import Cursor
from spark_job.changelog import read_events, truncations
from spark_job.changelog import rejected_rows as rejected
from spark_job.plan import apply_truncation, planner, plans
from spark_job.plan.slices import Slice
from spark_job.rebuild import restore_cursor, stage_progress
from tests.sim.engine.planting import PLANTED, instead, plant

_before = frozenset(PLANTED)


@plant((read_events, "_drop_truncated_events"))
def events_before_a_truncation_count(_drop_truncated_events: Any) -> Any:
    return lambda events, *_arguments: events


@plant((read_events, "events_before"))
def rows_after_a_truncation_removed(_before_it: Any) -> Any:
    return lambda _truncation, sequence, *_arguments: np.ones(len(sequence), dtype=np.bool_)


@plant((read_events, "events_before"))
def ties_with_a_truncation_removed(before: Any) -> Any:
    """Ignores the position of the row in its commit."""

    def defective(truncation: Any, *arguments: Any) -> Any:
        return before(truncation.model_copy(update={"commit": 1 << 62}), *arguments)

    return defective


@plant((Cursor, "with_truncation"))
def truncation_not_kept_with_the_cursor(_at: Any) -> Any:
    return lambda self, _truncation: self


@plant((rejected, "is_new_truncation"))
def truncation_ignored(_require: Any) -> Any:
    return instead(None)(None)


@plant((apply_truncation, "find_truncation"))
def first_truncation_taken_for_the_last(find: Any) -> Any:
    def defective(io: Any, files: Any, shape: Any) -> Any:
        found = [first for file in files if (first := find(io, [file], shape)) is not None]
        return min(found, key=lambda first: first.truncation.order, default=None)

    return defective


@plant((plans, "apply_truncation"))
def truncation_followed_without_a_rebuild(_follow: Any) -> Any:
    """Treats earlier events as stale, but keeps existing rows."""

    def defective(prepared: Any, part: Any, _unmerged: Any) -> Any:
        files = [file for slice_ in prepared.slices for file in slice_.files]
        last = truncations.find_truncation(prepared.changelog.io, files, prepared.shape)
        if last is None or not truncations.is_new_truncation(
            last.truncation, prepared.shape.applied_truncation
        ):
            return prepared, part
        shape = replace(prepared.shape, applied_truncation=last.truncation)
        return replace(prepared, shape=shape), Slice(part.files, part.cursor.with_truncation(last.truncation))

    return defective


@plant((stage_progress, "_lacks_truncation"))
def swapped_before_the_truncation_is_merged(_lacks: Any) -> Any:
    return instead(False)(None)


@plant((planner, "require_truncation_in_changelog"))
def rolled_back_truncation_still_followed(_require: Any) -> Any:
    return instead(None)(None)


@plant((truncations, "_greatest_position"))
def first_truncation_of_a_file_taken_for_its_last(_greatest_position: Any) -> Any:
    def defective(parts: Any, rows: Any) -> Any:
        return min((*sequence, row) for sequence, row in zip(parts.tolist(), rows.tolist(), strict=True))

    return defective


@plant((restore_cursor, "CursorSource"))
def truncation_lost_when_a_rebuild_is_reanchored(source: Any) -> Any:
    return lambda **options: source(**{**options, "truncated": None})


NAMES = frozenset(PLANTED) - _before
ROLLED_BACK = frozenset({"rolled back truncation still followed"})
"""Defects that show only if commits of the changelog are rolled back."""
