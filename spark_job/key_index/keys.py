"""Encoded keys as unsigned columns: 64 bits, or 128 bits compared high half first."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Keys:
    """A column of keys; `hi` is absent where 64 bits hold the whole key."""

    lo: U64
    hi: U64 | None = None

    def __len__(self) -> int:
        return len(self.lo)

    def take(self, indices: Indices | Mask | slice) -> Keys:
        """The keys at these places."""
        return Keys(self.lo[indices], None if self.hi is None else self.hi[indices])

    def argsort(self) -> Indices:
        """The stable ascending order of the keys."""
        if self.hi is None:
            return np.argsort(self.lo, kind="stable")
        return np.lexsort((self.lo, self.hi))

    def same_as_next(self) -> Mask:
        """For each key but the last: is the next one equal?"""
        same: Mask = self.lo[1:] == self.lo[:-1]
        return same if self.hi is None else same & (self.hi[1:] == self.hi[:-1])

    def follows_previous(self) -> Mask:
        """For each key but the first: is it the previous one plus one (with an equal high half)?"""
        next_lo: Mask = self.lo[1:] - self.lo[:-1] == np.uint64(1)
        return next_lo if self.hi is None else next_lo & (self.hi[1:] == self.hi[:-1])

    def bounds(self, first: int, last: int) -> slice:
        """Where the keys from `first` to `last` lie among ascending keys."""
        places = range(len(self))
        return slice(bisect_left(places, first, key=self.at), bisect_right(places, last, key=self.at))

    def at(self, index: int) -> int:
        """One key as a plain integer."""
        low = int(self.lo[index])
        return low if self.hi is None else (int(self.hi[index]) << 64) | low


def concat_keys(parts: Sequence[Keys]) -> Keys:
    """All parts one after the other; they agree on their width."""
    lo = np.concatenate([part.lo for part in parts])
    highs = [part.hi for part in parts if part.hi is not None]
    return Keys(lo, np.concatenate(highs) if highs else None)
