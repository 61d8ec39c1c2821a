"""Events that are not merged, beside those that are: they travel with a slice as changes without a key.

operation   0, 1: upsert, delete        127: as many as the row says lie before a truncation
                                        128 + n: rejected, for the n-th reason
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.changelog.bad_rows import Reason
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes, blank_changes, concat_changes
from spark_job.changelog.read_changes import read_sifted, require_followed
from spark_job.changelog.shape import ChangelogShape
from spark_job.key_index.keys import Indices, Mask

_OUTDATED = 127
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
    """The narrow columns of one changelog file, rejected events included; refuses a truncation that is news."""
    sifted = read_sifted(io, file, ordinal, shape)
    require_followed(sifted.truncation, file, shape)
    marked = [
        blank_changes(shape, ordinal, rows, operation=_FIRST + _REASONS.index(reason))
        for reason, rows in sifted.bad
    ]
    if sifted.outdated:
        marked.append(blank_changes(shape, ordinal, np.array([sifted.outdated]), operation=_OUTDATED))
    return concat_changes([sifted.changes, *marked]) if marked else sifted.changes


def split_outdated(events: Changes) -> tuple[Changes, int]:
    """The other events, and how many lie before a truncation."""
    outdated: Mask = events.operation == _OUTDATED
    if not outdated.any():
        return events, 0
    return events.take(~outdated), int(events.row[outdated].sum())


def split_rejected(events: Changes) -> tuple[Changes, Rejected]:
    """The events that can be merged, and the others."""
    wrong: Mask = events.operation >= _FIRST
    if not wrong.any():
        return events, Rejected()
    bad = events.take(wrong)
    return events.take(~wrong), Rejected(bad.file, bad.row, bad.operation - np.uint8(_FIRST))
