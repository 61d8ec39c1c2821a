"""Defects in rejecting bad rows."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

from icemirror.errors import Conflict
from spark_job import pipeline
from spark_job.changelog import read_events
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
    def defective(events: Any) -> Any:
        good, bad = split(events)
        if not len(bad) or not len(good):
            return good, bad
        extended = RejectedRows(
            np.append(bad.file, good.file[:1]), np.append(bad.row, good.row[:1]), np.append(bad.reason, 0)
        )
        return good, RejectedRows(extended.file, extended.row, extended.reason.astype(np.uint8))

    return defective


@plant((pipeline, "concat_rejected"))
def bad_rows_not_recorded(_concat: Any) -> Any:
    return lambda _parts: RejectedRows()


@plant((pipeline, "concat_rejected"))
def bad_rows_of_a_shard_not_recorded(concat: Any) -> Any:
    return lambda parts: concat(parts[1:] if len(parts) > 1 else parts)


@plant((read_events, "convert_good_rows"))
def bad_rows_numbered_without_those_before(convert_good_rows: Any) -> Any:
    def defective(columns: Any, convert: Any) -> Any:
        converted, kept, bad = convert_good_rows(columns, convert)
        shifted, removed = [], np.empty(0, dtype=np.intp)
        for reason, rows in bad:
            shifted.append((reason, np.array([row - int((removed < row).sum()) for row in rows])))
            removed = np.append(removed, rows)
        return converted, kept, shifted

    return defective


@plant((read_events, "convert_good_rows"))
def good_rows_renumbered(convert_good_rows: Any) -> Any:
    def defective(columns: Any, convert: Any) -> Any:
        converted, kept, bad = convert_good_rows(columns, convert)
        return converted, None if kept is None else np.arange(len(kept)), bad

    return defective


@plant((pipeline, "commit_slice"))
def rejects_deleted_after_a_conflict_on_the_mirror(commit_slice: Any) -> Any:
    """Treats the rejects as part of the failed attempt."""

    def defective(uncommitted: Any, *arguments: Any) -> Any:
        try:
            return commit_slice(uncommitted, *arguments)
        except Conflict:
            files = uncommitted.mirror.table.io.files
            for path in [file for file in files if "/world_rejects/data/" in file][-1:]:
                del files[path]
            raise

    return defective


@plant((record, "RowDelta"))
def rejects_without_a_fence(row_delta: Any) -> Any:
    """Commits on any head."""

    def defective(**arguments: Any) -> Any:
        table = arguments["table"].catalog.load_table(arguments["table"].name())
        return row_delta(**{**arguments, "table": table, "head": table.current_snapshot()})

    return defective


@plant((pipeline.Pipeline, "merge_slice"))
def rejects_after_the_mirror(merge: Any) -> Any:
    def defective(self: Any, *arguments: Any) -> Any:
        waiting: list[tuple[Any, ...]] = []
        with patch.object(pipeline, "record_rejects", lambda *arguments: waiting.append(arguments)):
            merged = merge(self, *arguments)
        for call in waiting:
            record.record_rejects(*call)
        return merged

    return defective


@plant((record, "discard_unless_committed"))
def files_of_unknown_rejects_discarded(_discard: Any) -> Any:
    return discard_on_error


NAMES = frozenset(PLANTED) - _before
