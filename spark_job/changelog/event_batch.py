"""A batch of events as numpy columns: key, operation, sequence, and the position of the row in the slice.

Values of `EventBatch.operation`. Rows and markers share the column with events, because batches are what is shuffled:

    0, 1      upsert, delete (`Operation`)
    2, 3      a live, a deleted row of the mirror, while segments are rebuilt (`RebuildOperation`)
    2, 3      an index entry, a tombstone, in a deep check (`compare_rows`)
    4 to 7    a row of the mirror, in a deep check (`compare_rows`)
    126       marker: a truncation that the mirror has not applied (`rejected_rows`)
    127       marker: `row` is the number of events before the applied truncation
    128 + n   marker: rejected for the n-th reason
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.columns.arrays import U64, Indices, Mask
from spark_job.index.keys import Keys, concat_keys

OLD_KEY_DELETE = 1  # deletes the key that the event's row had before
NEW_KEY_UPSERT = 2  # the event's row had another key before


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events, one per index of the columns. (`file`, `row`): position in the slice; `file` is an ordinal.

    `key_change_flags`: `OLD_KEY_DELETE` or `NEW_KEY_UPSERT` for events that change a key; None if no event does.
    """

    keys: Keys
    operation: NDArray[np.uint8]
    sequence: U64
    file: NDArray[np.uint32]
    row: NDArray[np.uint32]
    key_change_flags: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def positions(self) -> U64:
        """The position of each event in the slice as one number that orders by (file, row)."""
        return pack_positions(self.file, self.row)

    @property
    def is_delete(self) -> Mask:
        """Which events are deletes."""
        deletes: Mask = self.operation == Operation.DELETE
        return deletes

    @property
    def source_count(self) -> int:
        """The number of events in the changelog: without the deletes that were added for changed keys."""
        return len(self) - int(self.has_flag(OLD_KEY_DELETE).sum())

    def has_flag(self, flag: int) -> Mask:
        """Return which events have this flag (`OLD_KEY_DELETE` or `NEW_KEY_UPSERT`)."""
        if self.key_change_flags is None:
            return np.zeros(len(self), dtype=np.bool_)
        flagged: Mask = (self.key_change_flags & np.uint8(flag)) != 0
        return flagged

    def take(self, indices: Indices | Mask) -> EventBatch:
        """Return the events at these indices."""
        return EventBatch(
            self.keys.take(indices),
            self.operation[indices],
            self.sequence[indices],
            self.file[indices],
            self.row[indices],
            None if self.key_change_flags is None else self.key_change_flags[indices],
        )


def pack_positions(file: NDArray[np.integer], row: NDArray[np.integer]) -> U64:
    """Return each position as one number that orders by (file, row): the file in the high 32 bits."""
    return (file.astype(np.uint64) << np.uint64(32)) | row.astype(np.uint64)


def event_orders(events: EventBatch, files: Sequence[ChangelogFile]) -> U64:
    """Return the order of each event: sequence and changelog snapshot."""
    sequence_numbers = np.array([file.sequence_number for file in files], dtype=np.uint64)
    return np.column_stack([events.sequence, sequence_numbers[events.file]])


def concat_events(batches: Sequence[EventBatch]) -> EventBatch:
    """Return the events of all batches, in their order."""
    key_change_flags: NDArray[np.uint8] | None = None
    if any(batch.key_change_flags is not None for batch in batches):
        key_change_flags = np.concatenate(
            [
                np.zeros(len(batch), np.uint8) if batch.key_change_flags is None else batch.key_change_flags
                for batch in batches
            ]
        )
    return EventBatch(
        concat_keys([batch.keys for batch in batches]),
        np.concatenate([batch.operation for batch in batches]),
        np.concatenate([batch.sequence for batch in batches]),
        np.concatenate([batch.file for batch in batches]),
        np.concatenate([batch.row for batch in batches]),
        key_change_flags,
    )


def marker_events(shape: ChangelogShape, ordinal: int, rows: Indices, operation: int = 0) -> EventBatch:
    """Return events with zero key and zero sequence at these rows of a file: they carry only the operation."""
    count = len(rows)
    return EventBatch(
        keys=Keys(
            np.zeros(count, np.uint64), np.zeros(count, np.uint64) if shape.key_codec.is_wide else None
        ),
        operation=np.full(count, operation, dtype=np.uint8),
        sequence=np.zeros((count, shape.sequence.parts), dtype=np.uint64),
        file=np.full(count, ordinal, dtype=np.uint32),
        row=rows.astype(np.uint32),
    )


def sort_by_position(events: EventBatch) -> EventBatch:
    """Return the events ordered by (file, row)."""
    positions = events.positions
    if bool((positions[1:] >= positions[:-1]).all()):
        return events
    return events.take(np.argsort(positions, kind="stable"))
