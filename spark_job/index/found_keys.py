"""The result of a lookup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_job.columns.arrays import U64, Indices, Mask


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """The keys that were found, one element per key.

    - `key_index`: index among the requested keys
    - `segment_index`: index among the segments
    - `file` and `pos`: the key's row, with file −1 for a tombstone
    - `entry`: its entry number in the segment
    """

    key_index: Indices
    segment_index: Indices
    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    entry: U64

    def take(self, mask: Mask) -> FoundKeys:
        """Return the keys that the mask selects."""
        return FoundKeys(
            self.key_index[mask], self.segment_index[mask], self.file[mask], self.pos[mask], self.entry[mask]
        )


_NO_INDICES = np.empty(0, np.intp)
_NO_KEYS = FoundKeys(
    _NO_INDICES, _NO_INDICES, np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64)
)


def concat_found_keys(parts: Sequence[FoundKeys]) -> FoundKeys:
    """Return the found keys of all parts."""
    if len(parts) == 1:
        return parts[0]
    parts = parts or [_NO_KEYS]
    return FoundKeys(
        np.concatenate([part.key_index for part in parts]),
        np.concatenate([part.segment_index for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
        np.concatenate([part.entry for part in parts]),
    )
