"""Events in columns, as they are merged: key, operation, sequence, and the position of the row in the slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_job.changelog.shape import ChangelogShape
from spark_job.index.keys import U64, Indices, Keys, Mask, concat_keys

OLD_KEY = 1  # deletes the key that the event's row had before
NEW_KEY = 2  # the event's row had another key before


@dataclass(frozen=True, slots=True)
class Changes:
    """Events: key, operation, sequence, and position in the slice (file ordinal, row).

    `moves` flags events that change a key (`OLD_KEY`, `NEW_KEY`); None if there are none.
    """

    keys: Keys
    operation: NDArray[np.uint8]
    sequence: U64
    file: NDArray[np.uint32]
    row: NDArray[np.uint32]
    moves: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def positions(self) -> U64:
        """Return the position of each event in the slice as one number that orders by (file, row)."""
        return (self.file.astype(np.uint64) << np.uint64(32)) | self.row

    def has_move(self, flag: int) -> Mask:
        """Return which events have this flag (`OLD_KEY` or `NEW_KEY`)."""
        found: Mask = (
            np.zeros(len(self), dtype=np.bool_) if self.moves is None else (self.moves & np.uint8(flag)) != 0
        )
        return found

    def take(self, indices: Indices | Mask) -> Changes:
        """Return the events at these indices."""
        return Changes(
            self.keys.take(indices),
            self.operation[indices],
            self.sequence[indices],
            self.file[indices],
            self.row[indices],
            None if self.moves is None else self.moves[indices],
        )


def concat_changes(parts: Sequence[Changes]) -> Changes:
    """Concatenate events."""
    moves: NDArray[np.uint8] | None = None
    if any(part.moves is not None for part in parts):
        moves = np.concatenate(
            [np.zeros(len(part), np.uint8) if part.moves is None else part.moves for part in parts]
        )
    return Changes(
        concat_keys([part.keys for part in parts]),
        np.concatenate([part.operation for part in parts]),
        np.concatenate([part.sequence for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.row for part in parts]),
        moves,
    )


def keyless_changes(shape: ChangelogShape, ordinal: int, rows: Indices, operation: int = 0) -> Changes:
    """Return events with zero key and sequence at these rows of a file."""
    count = len(rows)
    return Changes(
        keys=Keys(np.zeros(count, np.uint64), np.zeros(count, np.uint64) if shape.codec.is_wide else None),
        operation=np.full(count, operation, dtype=np.uint8),
        sequence=np.zeros((count, shape.sequence.parts), dtype=np.uint64),
        file=np.full(count, ordinal, dtype=np.uint32),
        row=rows.astype(np.uint32),
    )


def sort_by_position(changes: Changes) -> Changes:
    """Return the events ordered by (file, row)."""
    position = changes.positions
    if bool((position[1:] >= position[:-1]).all()):
        return changes
    return changes.take(np.argsort(position, kind="stable"))
