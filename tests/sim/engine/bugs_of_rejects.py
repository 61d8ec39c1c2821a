"""Mistakes in putting bad rows aside."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

from icemirror.errors import Conflict
from spark_job import merge_slice, shard
from spark_job.changelog import read_changes
from spark_job.changelog.rejected import Rejected
from spark_job.files.written import written_before_commit
from spark_job.rejects import record
from tests.sim.engine.planting import BUGS, plant

_before = frozenset(BUGS)


@plant((record, "find_known"))
def bad_rows_rejected_twice(_find: Any) -> Any:
    return lambda _target, _files, rejected: np.zeros(len(rejected), dtype=np.bool_)


@plant((shard, "split_rejected"))
def rejected_and_merged(split: Any) -> Any:
    def wrong(events: Any) -> Any:
        good, bad = split(events)
        if not len(bad) or not len(good):
            return good, bad
        more = Rejected(
            np.append(bad.file, good.file[:1]), np.append(bad.row, good.row[:1]), np.append(bad.reason, 0)
        )
        return good, Rejected(more.file, more.row, more.reason.astype(np.uint8))

    return wrong


@plant((merge_slice, "gather_rejected"))
def bad_rows_left_out(_gather: Any) -> Any:
    return lambda _parts: Rejected()


@plant((merge_slice, "gather_rejected"))
def bad_rows_of_a_shard_left_out(gather: Any) -> Any:
    return lambda parts: gather(parts[1:] if len(parts) > 1 else parts)


@plant((read_changes, "sift"))
def bad_rows_numbered_without_those_before(sift: Any) -> Any:
    def wrong(columns: Any, convert: Any) -> Any:
        converted, kept, bad = sift(columns, convert)
        shifted, gone = [], np.empty(0, dtype=np.intp)
        for reason, rows in bad:
            shifted.append((reason, np.array([row - int((gone < row).sum()) for row in rows])))
            gone = np.append(gone, rows)
        return converted, kept, shifted

    return wrong


@plant((read_changes, "sift"))
def good_rows_numbered_anew(sift: Any) -> Any:
    def wrong(columns: Any, convert: Any) -> Any:
        converted, kept, bad = sift(columns, convert)
        return converted, None if kept is None else np.arange(len(kept)), bad

    return wrong


@plant((merge_slice, "commit_slice"))
def rejects_taken_back_when_the_mirror_is_overtaken(commit_slice: Any) -> Any:
    """As if they belonged to the attempt."""

    def wrong(mirror: Any, *given: Any, **named: Any) -> Any:
        try:
            return commit_slice(mirror, *given, **named)
        except Conflict:
            files = mirror.table.io.files
            for path in [one for one in files if "/world_rejects/data/" in one][-1:]:
                del files[path]
            raise

    return wrong


@plant((record, "RowDelta"))
def rejects_without_a_fence(row_delta: Any) -> Any:
    """On whatever head there is by then."""

    def wrong(**given: Any) -> Any:
        table = given["table"].catalog.load_table(given["table"].name())
        return row_delta(**{**given, "table": table, "head": table.current_snapshot()})

    return wrong


@plant((merge_slice.SliceMerger, "merge"))
def rejects_after_the_mirror(merge: Any) -> Any:
    def wrong(self: Any, *given: Any) -> Any:
        waiting: list[tuple[Any, ...]] = []
        with patch.object(merge_slice, "record_rejects", lambda *told: waiting.append(told)):
            merged = merge(self, *given)
        for told in waiting:
            record.record_rejects(*told)
        return merged

    return wrong


@plant((record, "written_for_commit"))
def files_of_unknown_rejects_discarded(_keeps: Any) -> Any:
    return written_before_commit


NAMES = frozenset(BUGS) - _before
