"""Merges a slice of a table without a key: every event becomes a row, in the order of the changelog.

The cursor moves in the same commit, so no event is appended twice. The index is a root without segments, which counts
the rows of each data file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from icemirror.processes.crash_points import crash_point
from spark_job.changelog.event_batch import EventBatch, concat_events, sort_by_position
from spark_job.changelog.require_inserts import require_inserts
from spark_job.index.keys import Keys
from spark_job.merge.effects import EventEffects
from spark_job.merge.shard_result import ShardOutcome, ShardResult
from spark_job.merge.slice_work import SliceWork
from spark_job.merge.write_winners import write_event_rows
from spark_job.storage.discard import discard_on_error
from spark_job.write.data_files import NOTHING_WRITTEN


@dataclass(frozen=True)
class AppendWork(SliceWork):
    """A slice of inserts. Shards are stretches of consecutive events: the event's ordinal serves as its key."""

    def read(self, ordinals: range) -> EventBatch:
        """Return the events of some files, keyed by their ordinal in the slice."""
        return concat_events([self._read_file(ordinal) for ordinal in ordinals])

    def _read_file(self, ordinal: int) -> EventBatch:
        file = self.files[ordinal]
        require_inserts(self.changelog_io, file, self.shape)
        events_before = sum(earlier.events for earlier in self.files[:ordinal])
        event_count = sum(slice_file.events for slice_file in self.files)
        ordinals = np.arange(events_before, events_before + file.events, dtype=np.uint64)
        # Ordinals are spread over the whole key range, so that key ranges cut them evenly.
        spacing = np.uint64(((1 << 64) - 1) // max(event_count, 1))
        return EventBatch(
            keys=Keys(ordinals * spacing),
            operation=np.zeros(file.events, dtype=np.uint8),
            sequence=np.zeros((file.events, 0), dtype=np.uint64),
            file=np.full(file.events, ordinal, dtype=np.uint32),
            row=np.arange(file.events, dtype=np.uint32),
        )

    def limit_shards(self, shards: int) -> int:
        """Return `shards`: consecutive events mostly belong to the same partitions."""
        return shards

    def run_shard(self, read: Callable[[], EventBatch]) -> ShardOutcome:
        """Write a row for each event that `read` returns. Deletes its files if it fails."""
        began = time.perf_counter()
        events = sort_by_position(read())
        with discard_on_error(self.mirror_io) as paths:
            crash_point("write-data")
            written = write_event_rows(self, events, paths) if len(events) else NOTHING_WRITTEN
            crash_point("data-written")
        return ShardResult(
            events=len(events),
            effects=_all_inserted(len(events)),
            data_files=written.files,
            segment=None,
            removed_file=np.empty(0, np.int32),
            removed_pos=np.empty(0, np.int64),
            seconds={"write": time.perf_counter() - began},
            indexed=False,
        )


def _all_inserted(count: int) -> EventEffects:
    no_event = np.zeros(count, dtype=np.bool_)
    return EventEffects(
        ~no_event, no_event, no_event, inserted=count, updated=0, deleted=0, stale=0, unchanged=0
    )
