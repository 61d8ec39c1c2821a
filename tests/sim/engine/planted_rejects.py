"""Mistakes in rejecting bad rows."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

from icemirror.errors import Conflict
from spark_job import pipeline
from spark_job.changelog import read_changes
from spark_job.changelog.rejected_rows import RejectedRows
from spark_job.rejects import record_rejects as record
from spark_job.storage.discard import discard_on_error
from tests.sim.engine.planting import PLANTED, plant

_before = frozenset(PLANTED)


@plant((record, "find_recorded"))
def bad_rows_rejected_twice(_find: Any) -> Any:
    return lambda _table, _columns, _files, rejected: np.zeros(len(rejected), dtype=np.bool_)


@plant((pipeline, "split_rejected"))
def rejected_and_merged(split: Any) -> Any:
    def wrong(events: Any) -> Any:
        good, bad = split(events)
        if not len(bad) or not len(good):
            return good, bad
        more = RejectedRows(
            np.append(bad.file, good.file[:1]), np.append(bad.row, good.row[:1]), np.append(bad.reason, 0)
        )
        return good, RejectedRows(more.file, more.row, more.reason.astype(np.uint8))

    return wrong


@plant((pipeline, "concat_rejected"))
def bad_rows_not_recorded(_gather: Any) -> Any:
    return lambda _parts: RejectedRows()


@plant((pipeline, "concat_rejected"))
def bad_rows_of_a_shard_not_recorded(gather: Any) -> Any:
    return lambda parts: gather(parts[1:] if len(parts) > 1 else parts)


@plant((read_changes, "convert_good_rows"))
def bad_rows_numbered_without_those_before(sift: Any) -> Any:
    def wrong(columns: Any, convert: Any) -> Any:
        converted, kept, bad = sift(columns, convert)
        shifted, gone = [], np.empty(0, dtype=np.intp)
        for reason, rows in bad:
            shifted.append((reason, np.array([row - int((gone < row).sum()) for row in rows])))
            gone = np.append(gone, rows)
        return converted, kept, shifted

    return wrong


@plant((read_changes, "convert_good_rows"))
def good_rows_renumbered(sift: Any) -> Any:
    def wrong(columns: Any, convert: Any) -> Any:
        converted, kept, bad = sift(columns, convert)
        return converted, None if kept is None else np.arange(len(kept)), bad

    return wrong


@plant((pipeline, "commit_slice"))
def rejects_deleted_after_a_conflict_on_the_mirror(commit_slice: Any) -> Any:
    """As if the rejects belonged to the attempt."""

    def wrong(uncommitted: Any, *given: Any) -> Any:
        try:
            return commit_slice(uncommitted, *given)
        except Conflict:
            files = uncommitted.mirror.table.io.files
            for path in [one for one in files if "/world_rejects/data/" in one][-1:]:
                del files[path]
            raise

    return wrong


@plant((record, "RowDelta"))
def rejects_without_a_fence(row_delta: Any) -> Any:
    """Commits on any head."""

    def wrong(**given: Any) -> Any:
        table = given["table"].catalog.load_table(given["table"].name())
        return row_delta(**{**given, "table": table, "head": table.current_snapshot()})

    return wrong


@plant((pipeline.Pipeline, "merge_slice"))
def rejects_after_the_mirror(merge: Any) -> Any:
    def wrong(self: Any, *given: Any) -> Any:
        waiting: list[tuple[Any, ...]] = []
        with patch.object(pipeline, "record_rejects", lambda *given: waiting.append(given)):
            merged = merge(self, *given)
        for one in waiting:
            record.record_rejects(*one)
        return merged

    return wrong


@plant((record, "discard_unless_committed"))
def files_of_unknown_rejects_discarded(_keeps: Any) -> Any:
    return discard_on_error


NAMES = frozenset(PLANTED) - _before
