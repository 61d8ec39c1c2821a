"""A slice of a table without a key: every event becomes a row, in the order of the changelog, and nothing is looked up.

What keeps a row from being there twice is the cursor, which moves in the commit that brings the row. The index is a
root without segments: it counts the rows of each data file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from icemirror.crash import reach
from icemirror.errors import Invalid
from spark_job.changelog.bulk import require_short
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes, concat_changes, in_order
from spark_job.changelog.operations import told_value
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.parquet_columns import check_ids, column_paths, open_parquet, read_columns
from spark_job.files.written import written_before_commit
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.view import live_files
from spark_job.index_upkeep.indexed_files import indexed_file
from spark_job.index_upkeep.recount import recount
from spark_job.key_index.keys import Keys
from spark_job.key_index.root import Root
from spark_job.locate import Fate
from spark_job.shard import ShardResult, SliceWork, write_changes
from spark_job.write.data_files import WrittenRows


@dataclass(frozen=True)
class AppendWork(SliceWork):
    """A slice whose events are all inserts. Shards are runs of neighbouring events: their place stands for a key."""

    def read(self, ordinals: range) -> Changes:
        """The events of some files of the slice, by their places."""
        return concat_changes([self._read_file(ordinal) for ordinal in ordinals])

    def _read_file(self, ordinal: int) -> Changes:
        file = self.files[ordinal]
        require_inserts(self.changelog_io, file, self.shape)
        first = sum(one.events for one in self.files[:ordinal])
        every = sum(one.events for one in self.files)
        number = np.arange(first, first + file.events, dtype=np.uint64)
        return Changes(
            keys=Keys(number * np.uint64(((1 << 64) - 1) // max(every, 1))),
            operation=np.zeros(file.events, dtype=np.uint8),
            sequence=np.zeros((file.events, 0), dtype=np.uint64),
            file=np.full(file.events, ordinal, dtype=np.uint32),
            row=np.arange(file.events, dtype=np.uint32),
        )

    def most_shards(self, wanted: int) -> int:
        """All of them: neighbouring events are mostly of the same partitions."""
        return wanted

    def merge(self, read: Callable[[], Changes]) -> ShardResult:
        """Writes the rows of the events that `read` gives; files of a failed attempt are removed again."""
        began = time.perf_counter()
        events = in_order(read())
        written = WrittenRows((), np.empty(0, np.int32), np.empty(0, np.int64))
        with written_before_commit(self.mirror_io) as paths:
            reach("write-data")
            if len(events):
                written = write_changes(self, events, None, paths, None)
            reach("data-written")
        return ShardResult(
            events=len(events),
            fate=_all_inserted(len(events)),
            data_files=written.files,
            spec_ids=tuple(file.spec_id for file in written.files),
            segment=None,
            removed_file=np.empty(0, np.int32),
            removed_pos=np.empty(0, np.int64),
            seconds={"write": time.perf_counter() - began},
            indexed=False,
        )


def _all_inserted(count: int) -> Fate:
    nothing = np.zeros(count, dtype=np.bool_)
    return Fate(~nothing, nothing, nothing, inserted=count, updated=0, deleted=0, stale=0, unchanged=0)


def require_inserts(io: FileIO, file: ChangeFile, shape: ChangelogShape) -> None:
    """Refuses a file with an event that is no insert: without a key nobody knows which row it is about."""
    with open_parquet(io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_ids(parquet, file.path, shape.last_column_id)
        if shape.operation_id is None:
            return
        names = column_paths(parquet, file.path, (shape.operation_id,))
        if not names and None in shape.operations:
            return
        require_short(io, file.path, parquet, [".".join(name) for name in names.values()])
        (column,) = read_columns(parquet, file.path, (shape.operation_id,))
    operations = column.cast(pa.large_string())
    for value in pc.unique(operations).to_pylist():
        if value not in shape.operations:
            known = ", ".join(sorted(filter(None, shape.operations)))
            same = operations.is_null() if value is None else pc.equal(operations, value).fill_null(False)
            row = int(np.flatnonzero(same.to_numpy(zero_copy_only=False))[0])
            if value in shape.truncates:
                raise Invalid(
                    f"{shape.changelog}: {file.path}: row {row} says that the source table was truncated "
                    f"({told_value(value)}), which is not followed in an append_only table. Have the connector write "
                    "no such rows (skipped.operations of Debezium), and copy the source into a new changelog, from "
                    "which the mirror is then built anew; or name the columns of a key in primary_keys instead of "
                    "append_only."
                )
            raise Invalid(
                f"{shape.changelog}: {file.path}: the operation in row {row} is {told_value(value)}. In an "
                f"append_only table events can only add rows ({known}): there is no key to find others by. Name the "
                "columns of a key in primary_keys instead of append_only; or, to have such events added as rows, too, "
                "name the operation in operation_values.insert, then `icemirror resume`."
            )


def counted(mirror: Mirror) -> Mirror:
    """The mirror with a root that counts the rows of the head, whoever wrote them."""
    if mirror.head is None or (mirror.root is not None and not mirror.foreign):
        return mirror
    io = mirror.table.io
    live = recount(io, live_files(io, mirror.head), None)
    files = tuple(map(indexed_file, live.values()))
    root = Root(snapshot_id=mirror.head.snapshot_id, epoch=mirror.epoch, segments=(), files=files)
    known = mirror.root.next_run if mirror.root else root.next_run
    return replace(mirror, root=root.model_copy(update={"next_run": known}))
