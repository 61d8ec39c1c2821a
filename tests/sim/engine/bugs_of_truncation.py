"""Mistakes in following truncations of the source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from icemirror.cursor import Cursor
from spark_job import merge_slice, pipeline
from spark_job.changelog import read_changes, rejected, truncations
from spark_job.planning import truncated
from spark_job.planning.plan import Slice
from spark_job.replays import reanchor, rebuild
from tests.sim.engine.planting import BUGS, instead, plant

_before = frozenset(BUGS)


@plant((read_changes, "_that_count"))
def events_before_a_truncation_count(_that_count: Any) -> Any:
    return lambda sifted, *_given: sifted


@plant((read_changes, "are_before"))
def rows_after_a_truncation_go_with_it(_before_it: Any) -> Any:
    return lambda _truncation, sequence, *_given: np.ones(len(sequence), dtype=np.bool_)


@plant((read_changes, "are_before"))
def ties_with_a_truncation_go_with_it(before: Any) -> Any:
    """Where the row is in the commit does not count."""

    def wrong(truncation: Any, *given: Any) -> Any:
        return before(truncation.model_copy(update={"commit": 1 << 62}), *given)

    return wrong


@plant((Cursor, "truncated_at"))
def truncation_not_kept_with_the_cursor(_at: Any) -> Any:
    return lambda self, _truncation: self


@plant((rejected, "require_followed"), (truncated, "known_truncation"))
def truncation_passed_over(_require: Any) -> Any:
    return instead(None)(None)


@plant((truncated, "find_truncation"))
def first_truncation_taken_for_the_last(find: Any) -> Any:
    def wrong(io: Any, files: Any, shape: Any) -> Any:
        found = [one for file in files if (one := find(io, [file], shape)) is not None]
        return min(found, key=lambda one: one.truncation.order, default=None)

    return wrong


@plant((merge_slice, "follow_truncation"))
def truncation_followed_without_a_rebuild(_follow: Any) -> Any:
    """Late events are stale from then on, but what is there stays."""

    def wrong(prepared: Any, part: Any) -> Any:
        files = [file for one in prepared.slices for file in one.files]
        last = truncations.find_truncation(prepared.changelog.io, files, prepared.shape)
        if last is None or not truncations.is_news(last.truncation, prepared.shape.truncated):
            return prepared, part
        shape = replace(prepared.shape, truncated=last.truncation)
        return replace(prepared, shape=shape), Slice(part.files, part.cursor.truncated_at(last.truncation))

    return wrong


@plant((rebuild, "_lacks_truncation"))
def swapped_before_what_came_with_the_truncation(_lacks: Any) -> Any:
    return instead(False)(None)


@plant((pipeline, "require_truncation_ahead"))
def truncation_that_was_taken_back_still_followed(_require: Any) -> Any:
    return instead(None)(None)


@plant((truncations, "_last"))
def first_truncation_of_a_file_taken_for_its_last(_last: Any) -> Any:
    def wrong(parts: Any, rows: Any) -> Any:
        return min((*told, row) for told, row in zip(parts.tolist(), rows.tolist(), strict=True))

    return wrong


@plant((reanchor, "Source"))
def truncation_lost_where_a_rebuild_goes_on_elsewhere(source: Any) -> Any:
    return lambda **named: source(**{**named, "truncated": None})


NAMES = frozenset(BUGS) - _before
TAKEN_BACK = frozenset({"truncation that was taken back still followed"})
"""Those that only show where commits of the changelog are."""
