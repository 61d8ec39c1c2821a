"""Events that cannot be merged, beside those that can: they travel with a slice as changes without a key.

operation   0, 1: upsert, delete        128 + n: rejected, for the n-th reason
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.changelog.bad_rows import Reason
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.shape import ChangelogShape
from spark_job.collapse import Changes, blank_changes, concat_changes, read_sifted
from spark_job.key_index.keys import Indices, Mask

_FIRST = 128
_REASONS = tuple(Reason)


@dataclass(frozen=True, slots=True)
class Rejected:
    """Where in the slice they are (file ordinal, row), and the number of the reason of each."""

    file: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    row: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    reason: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))

    def __len__(self) -> int:
        return len(self.file)

    def take(self, indices: Indices | Mask) -> Rejected:
        """Those at these places."""
        return Rejected(self.file[indices], self.row[indices], self.reason[indices])

    @property
    def reasons(self) -> list[Reason]:
        """The reason of each."""
        return [_REASONS[number] for number in self.reason.tolist()]

    def count_by_reason(self) -> Mapping[str, int]:
        """How many there are, in the order of the reasons."""
        counts = np.bincount(self.reason, minlength=len(_REASONS)).tolist()
        return {reason.value: count for reason, count in zip(_REASONS, counts, strict=True) if count}


def gather_rejected(parts: Sequence[Rejected]) -> Rejected:
    """All parts, in the order (file, row)."""
    every = [Rejected(), *parts]
    together = Rejected(
        np.concatenate([part.file for part in every]),
        np.concatenate([part.row for part in every]),
        np.concatenate([part.reason for part in every]),
    )
    return together.take(np.lexsort((together.row, together.file)))


def read_events(io: FileIO, file: ChangeFile, ordinal: int, shape: ChangelogShape) -> Changes:
    """The narrow columns of one changelog file, rejected events included."""
    changes, bad = read_sifted(io, file, ordinal, shape)
    if not bad:
        return changes
    marked = [
        blank_changes(shape, ordinal, rows, operation=_FIRST + _REASONS.index(reason)) for reason, rows in bad
    ]
    return concat_changes([changes, *marked])


def split_rejected(events: Changes) -> tuple[Changes, Rejected]:
    """The events that can be merged, and the others."""
    wrong: Mask = events.operation >= _FIRST
    if not wrong.any():
        return events, Rejected()
    bad = events.take(wrong)
    return events.take(~wrong), Rejected(bad.file, bad.row, bad.operation - np.uint8(_FIRST))
