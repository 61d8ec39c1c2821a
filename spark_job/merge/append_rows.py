"""Merges a slice of a table without a key: every event becomes a row, in the order of the changelog.

The cursor moves in the same commit, so no event is appended twice. The index is a root without segments, which counts
the rows of each data file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from icemirror.errors import Invalid
from icemirror.processes.crash_points import reach
from spark_job.changelog.changes import Changes, concat_changes, sort_by_position
from spark_job.changelog.event_columns import quote_operation
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.memory_bounds import refuse_long_values
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.parquet_columns import check_field_ids, column_paths, open_parquet, read_columns
from spark_job.index.keys import Keys
from spark_job.merge.locate import EventEffects
from spark_job.merge.shard_result import HistoryNeeded, ShardOutcome, ShardResult
from spark_job.merge.slice_work import SliceWork
from spark_job.merge.write_winners import write_rows_of
from spark_job.storage.discard import discard_on_error
from spark_job.write.data_files import NOTHING_WRITTEN


@dataclass(frozen=True)
class AppendWork(SliceWork):
    """A slice of inserts. Shards are runs of consecutive events: the event's ordinal serves as its key."""

    def read(self, ordinals: range) -> Changes:
        """Return the events of some files, keyed by their ordinal in the slice."""
        return concat_changes([self._read_file(ordinal) for ordinal in ordinals])

    def _read_file(self, ordinal: int) -> Changes:
        file = self.files[ordinal]
        require_inserts(self.changelog_io, file, self.shape)
        first = sum(earlier.events for earlier in self.files[:ordinal])
        total = sum(file.events for file in self.files)
        number = np.arange(first, first + file.events, dtype=np.uint64)
        return Changes(
            keys=Keys(number * np.uint64(((1 << 64) - 1) // max(total, 1))),
            operation=np.zeros(file.events, dtype=np.uint8),
            sequence=np.zeros((file.events, 0), dtype=np.uint64),
            file=np.full(file.events, ordinal, dtype=np.uint32),
            row=np.arange(file.events, dtype=np.uint32),
        )

    def limit_shards(self, wanted: int) -> int:
        """Return `wanted`: consecutive events mostly belong to the same partitions."""
        return wanted

    def merge(self, read: Callable[[], Changes]) -> ShardOutcome:
        """Write a row for each event that `read` returns. Deletes its files if it fails."""
        began = time.perf_counter()
        events = sort_by_position(read())
        with discard_on_error(self.mirror_io) as paths:
            reach("write-data")
            written = write_rows_of(self, events, paths) if len(events) else NOTHING_WRITTEN
            if isinstance(written, HistoryNeeded):
                return written
            reach("data-written")
        return ShardResult(
            events=len(events),
            effects=_all_inserted(len(events)),
            data_files=written.files,
            spec_ids=tuple(file.spec_id for file in written.files),
            segment=None,
            removed_file=np.empty(0, np.int32),
            removed_pos=np.empty(0, np.int64),
            seconds={"write": time.perf_counter() - began},
            indexed=False,
        )


def _all_inserted(count: int) -> EventEffects:
    nothing = np.zeros(count, dtype=np.bool_)
    return EventEffects(
        ~nothing, nothing, nothing, inserted=count, updated=0, deleted=0, stale=0, unchanged=0
    )


def require_inserts(io: FileIO, file: ChangelogFile, shape: ChangelogShape) -> None:
    """Raise `Invalid` if an event is not an insert: without a key, its row cannot be found."""
    with open_parquet(io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_field_ids(parquet, file.path, shape.last_column_id)
        if shape.operation_id is None:
            return
        names = column_paths(parquet, file.path, (shape.operation_id,))
        if not names and None in shape.operations:
            return
        refuse_long_values(io, file.path, parquet, [".".join(name) for name in names.values()])
        (column,) = read_columns(parquet, file.path, (shape.operation_id,))
    operations = column.cast(pa.large_string())
    for value in pc.unique(operations).to_pylist():
        if value not in shape.operations:
            known = ", ".join(sorted(filter(None, shape.operations)))
            same = operations.is_null() if value is None else pc.equal(operations, value).fill_null(False)
            row = int(np.flatnonzero(same.to_numpy(zero_copy_only=False))[0])
            if value in shape.truncate_operations:
                raise Invalid(
                    f"{shape.changelog}: the source table was truncated ({quote_operation(value)}), which an "
                    "append_only table does not follow. Configure the connector to write no such rows "
                    "(skipped.operations of Debezium), copy the source into a new changelog and rebuild the mirror "
                    "from it; or name the key columns in primary_keys instead of append_only. Found in row "
                    f"{row} of {file.path}"
                )
            raise Invalid(
                f"{shape.changelog}: the operation in row {row} is {quote_operation(value)}. Events of an append_only "
                f"table can only add rows ({known}). Name the key columns in primary_keys instead of append_only; or, "
                "to append a row for such events too, add the operation to operation_values.insert; then "
                f"`icemirror resume`. Found in {file.path}"
            )
