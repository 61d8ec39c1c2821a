"""Mistakes in following truncations of the source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from icemirror.tables.cursor import Cursor
from spark_job.changelog import read_changes, truncations
from spark_job.changelog import rejected_rows as rejected
from spark_job.plan import planner, plans, truncation
from spark_job.plan.slices import Slice
from spark_job.rebuild import rebuild, restore_cursor
from tests.sim.engine.planting import PLANTED, instead, plant

_before = frozenset(PLANTED)


@plant((read_changes, "_drop_truncated_events"))
def events_before_a_truncation_count(_drop_truncated_events: Any) -> Any:
    return lambda sifted, *_given: sifted


@plant((read_changes, "events_before"))
def rows_after_a_truncation_removed(_before_it: Any) -> Any:
    return lambda _truncation, sequence, *_given: np.ones(len(sequence), dtype=np.bool_)


@plant((read_changes, "events_before"))
def ties_with_a_truncation_removed(before: Any) -> Any:
    """Ignores the position of the row in its commit."""

    def wrong(truncation: Any, *given: Any) -> Any:
        return before(truncation.model_copy(update={"commit": 1 << 62}), *given)

    return wrong


@plant((Cursor, "with_truncation"))
def truncation_not_kept_with_the_cursor(_at: Any) -> Any:
    return lambda self, _truncation: self


@plant((rejected, "is_new_truncation"), (truncation, "cached_truncation"))
def truncation_ignored(_require: Any) -> Any:
    return instead(None)(None)


@plant((truncation, "find_truncation"))
def first_truncation_taken_for_the_last(find: Any) -> Any:
    def wrong(io: Any, files: Any, shape: Any) -> Any:
        found = [one for file in files if (one := find(io, [file], shape)) is not None]
        return min(found, key=lambda one: one.truncation.order, default=None)

    return wrong


@plant((plans, "follow_truncation"))
def truncation_followed_without_a_rebuild(_follow: Any) -> Any:
    """Late events become stale, but existing rows stay."""

    def wrong(prepared: Any, part: Any) -> Any:
        files = [file for one in prepared.slices for file in one.files]
        last = truncations.find_truncation(prepared.changelog.io, files, prepared.shape)
        if last is None or not truncations.is_new_truncation(
            last.truncation, prepared.shape.followed_truncation
        ):
            return prepared, part
        shape = replace(prepared.shape, followed_truncation=last.truncation)
        return replace(prepared, shape=shape), Slice(part.files, part.cursor.with_truncation(last.truncation))

    return wrong


@plant((rebuild, "_lacks_truncation"))
def swapped_before_the_truncation_is_merged(_lacks: Any) -> Any:
    return instead(False)(None)


@plant((planner, "require_followed_truncation"))
def rolled_back_truncation_still_followed(_require: Any) -> Any:
    return instead(None)(None)


@plant((truncations, "_greatest_position"))
def first_truncation_of_a_file_taken_for_its_last(_greatest_position: Any) -> Any:
    def wrong(parts: Any, rows: Any) -> Any:
        return min((*told, row) for told, row in zip(parts.tolist(), rows.tolist(), strict=True))

    return wrong


@plant((restore_cursor, "CursorSource"))
def truncation_lost_when_a_rebuild_is_reanchored(source: Any) -> Any:
    return lambda **named: source(**{**named, "truncated": None})


NAMES = frozenset(PLANTED) - _before
ROLLED_BACK = frozenset({"rolled back truncation still followed"})
"""Mistakes that only show where commits of the changelog are rolled back."""
