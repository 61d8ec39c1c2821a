"""Encode rejected rows and truncations as marker events, so that they pass through the shuffle with the others.

`event_batch` lists the values of `operation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.bad_rows import RejectReason
from spark_job.changelog.event_batch import EventBatch, concat_events, marker_events
from spark_job.changelog.read_events import read_file_events
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import is_new_truncation
from spark_job.columns.arrays import Indices, Mask


class _Marker(IntEnum):
    NEW_TRUNCATION = 126
    BEFORE_TRUNCATION = 127
    FIRST_REASON = 128


_REASONS = tuple(RejectReason)


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """Rejected rows: position in the slice (file ordinal, row), and the ordinal of the reason."""

    file: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    row: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    reason: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))

    def __len__(self) -> int:
        return len(self.file)

    def take(self, indices: Indices | Mask) -> RejectedRows:
        """Return the rows at these indices."""
        return RejectedRows(self.file[indices], self.row[indices], self.reason[indices])

    @property
    def reasons(self) -> list[RejectReason]:
        """The reason of each row."""
        return [_REASONS[ordinal] for ordinal in self.reason.tolist()]

    def count_by_reason(self) -> Mapping[str, int]:
        """Return the number of rows per reason, in the order of the reasons."""
        counts = np.bincount(self.reason, minlength=len(_REASONS)).tolist()
        return {reason.value: count for reason, count in zip(_REASONS, counts, strict=True) if count}


def concat_rejected(parts: Sequence[RejectedRows]) -> RejectedRows:
    """Return the rejected rows of all parts, ordered by (file, row)."""
    parts = [RejectedRows(), *parts]
    rows = RejectedRows(
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.reason for part in parts]),
    )
    return rows.take(np.lexsort((rows.row, rows.file)))


def read_events_with_rejects(
    io: FileIO, file: ChangelogFile, ordinal: int, shape: ChangelogShape
) -> EventBatch:
    """Return the events to merge of a changelog file, followed by markers of its rejected rows and truncations."""
    file_events = read_file_events(io, file, ordinal, shape)
    markers = [
        marker_events(shape, ordinal, rows, operation=_Marker.FIRST_REASON + _REASONS.index(reason))
        for reason, rows in file_events.rejected
    ]
    if file_events.before_truncation:
        markers.append(
            marker_events(
                shape, ordinal, np.array([file_events.before_truncation]), operation=_Marker.BEFORE_TRUNCATION
            )
        )
    if file_events.truncation is not None and is_new_truncation(
        file_events.truncation, shape.applied_truncation
    ):
        row = np.array([file_events.truncation.row])
        markers.append(marker_events(shape, ordinal, row, operation=_Marker.NEW_TRUNCATION))
    return concat_events([file_events.events, *markers]) if markers else file_events.events


def find_new_truncation(events: EventBatch) -> tuple[int, int] | None:
    """Return file ordinal and row of the first truncation that the mirror has not applied."""
    truncations = np.flatnonzero(events.operation == _Marker.NEW_TRUNCATION)
    if not len(truncations):
        return None
    first = truncations[np.argmin(events.positions[truncations])]
    return int(events.file[first]), int(events.row[first])


def split_before_truncation(events: EventBatch) -> tuple[EventBatch, int]:
    """Return the events without their markers, and the number of events before the applied truncation."""
    is_marker: Mask = events.operation == _Marker.BEFORE_TRUNCATION
    if not is_marker.any():
        return events, 0
    return events.take(~is_marker), int(events.row[is_marker].sum())


def split_rejected(events: EventBatch) -> tuple[EventBatch, RejectedRows]:
    """Return the events that can be merged, and the rejected rows."""
    is_rejected: Mask = events.operation >= _Marker.FIRST_REASON
    if not is_rejected.any():
        return events, RejectedRows()
    rejected = events.take(is_rejected)
    reason = rejected.operation - np.uint8(_Marker.FIRST_REASON)
    return events.take(~is_rejected), RejectedRows(rejected.file, rejected.row, reason)
