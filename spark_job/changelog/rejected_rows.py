"""Encode rejected rows and truncated events as keyless events, so that they pass through the shuffle.

operation   0, 1: upsert, delete        126: a truncation that the mirror has not followed
                                        127: `row` is the number of events before a followed truncation
                                        128 + n: rejected for the n-th reason
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.changelog.bad_rows import RejectReason
from spark_job.changelog.changes import Changes, concat_changes, keyless_changes
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.read_changes import read_file_events
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import is_new_truncation
from spark_job.index.keys import Indices, Mask

_NEW_TRUNCATION = 126
_BEFORE_TRUNCATION = 127
_FIRST_REASON = 128
_REASONS = tuple(RejectReason)


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """Rejected rows: position in the slice (file ordinal, row), and the number of the reason."""

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
        """Return the reason of each row."""
        return [_REASONS[number] for number in self.reason.tolist()]

    def count_by_reason(self) -> Mapping[str, int]:
        """Return the number of rows per reason, in the order of the reasons."""
        counts = np.bincount(self.reason, minlength=len(_REASONS)).tolist()
        return {reason.value: count for reason, count in zip(_REASONS, counts, strict=True) if count}


def concat_rejected(parts: Sequence[RejectedRows]) -> RejectedRows:
    """Concatenate rejected rows, ordered by (file, row)."""
    parts = [RejectedRows(), *parts]
    rows = RejectedRows(
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.reason for part in parts]),
    )
    return rows.take(np.lexsort((rows.row, rows.file)))


def read_events_with_rejects(io: FileIO, file: ChangelogFile, ordinal: int, shape: ChangelogShape) -> Changes:
    """Return the events of a changelog file, with rejected ones and a truncation that the mirror has not followed."""
    found = read_file_events(io, file, ordinal, shape)
    marked = [
        keyless_changes(shape, ordinal, rows, operation=_FIRST_REASON + _REASONS.index(reason))
        for reason, rows in found.bad
    ]
    if found.before_truncation:
        marked.append(
            keyless_changes(shape, ordinal, np.array([found.before_truncation]), operation=_BEFORE_TRUNCATION)
        )
    if found.truncation is not None and is_new_truncation(found.truncation, shape.followed_truncation):
        row = np.array([found.truncation.row])
        marked.append(keyless_changes(shape, ordinal, row, operation=_NEW_TRUNCATION))
    return concat_changes([found.changes, *marked]) if marked else found.changes


def find_new_truncation(events: Changes) -> tuple[int, int] | None:
    """Return file ordinal and row of the first truncation that the mirror has not followed."""
    found = np.flatnonzero(events.operation == _NEW_TRUNCATION)
    if not len(found):
        return None
    first = found[np.argmin(events.positions[found])]
    return int(events.file[first]), int(events.row[first])


def split_before_truncation(events: Changes) -> tuple[Changes, int]:
    """Return the other events, and the number of events before a truncation."""
    truncated: Mask = events.operation == _BEFORE_TRUNCATION
    if not truncated.any():
        return events, 0
    return events.take(~truncated), int(events.row[truncated].sum())


def split_rejected(events: Changes) -> tuple[Changes, RejectedRows]:
    """Return the events that can be merged, and the rejected rows."""
    wrong: Mask = events.operation >= _FIRST_REASON
    if not wrong.any():
        return events, RejectedRows()
    bad = events.take(wrong)
    return events.take(~wrong), RejectedRows(bad.file, bad.row, bad.operation - np.uint8(_FIRST_REASON))
