"""Events as they are merged: key, operation and order, and the place of the row that each brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_job.changelog.shape import ChangelogShape
from spark_job.key_index.keys import U64, Indices, Keys, Mask, concat_keys

LEFT = 1  # the key is the one that the event's row had before; the event is its end
CAME = 2  # the event's row had another key before


@dataclass(frozen=True, slots=True)
class Changes:
    """Events: their key, what they do, their order, and where in the slice they are (file ordinal, row).

    `moves` tells of events that change a key (`LEFT`, `CAME`); None where there are none.
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
    def places(self) -> U64:
        """Where each event stands in the slice, as one number that orders by (file, row)."""
        return (self.file.astype(np.uint64) << np.uint64(32)) | self.row

    def are(self, move: int) -> Mask:
        """Which of them are such a part of a change of a key."""
        found: Mask = (
            np.zeros(len(self), dtype=np.bool_) if self.moves is None else (self.moves & np.uint8(move)) != 0
        )
        return found

    def take(self, indices: Indices | Mask) -> Changes:
        """The events at these places."""
        return Changes(
            self.keys.take(indices),
            self.operation[indices],
            self.sequence[indices],
            self.file[indices],
            self.row[indices],
            None if self.moves is None else self.moves[indices],
        )


def concat_changes(parts: Sequence[Changes]) -> Changes:
    """All parts, one after the other."""
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


def blank_changes(shape: ChangelogShape, ordinal: int, rows: Indices, operation: int = 0) -> Changes:
    """As many changes without key and sequence, at these rows of a file."""
    count = len(rows)
    return Changes(
        keys=Keys(np.zeros(count, np.uint64), np.zeros(count, np.uint64) if shape.codec.is_wide else None),
        operation=np.full(count, operation, dtype=np.uint8),
        sequence=np.zeros((count, shape.sequence.parts), dtype=np.uint64),
        file=np.full(count, ordinal, dtype=np.uint32),
        row=rows.astype(np.uint32),
    )


def in_order(changes: Changes) -> Changes:
    """The events in the order (file, row)."""
    place = changes.places
    if bool((place[1:] >= place[:-1]).all()):
        return changes
    return changes.take(np.argsort(place, kind="stable"))
