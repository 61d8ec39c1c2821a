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

_LOW_HALF = (1 << 64) - 1


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

    def slices(self, ranges: Sequence[tuple[int, int]]) -> list[slice]:
        """The same for many ranges."""
        starts = last_not_above(self, self._like([max(first, 1) - 1 for first, _ in ranges])) + 1
        ends = last_not_above(self, self._like([last for _, last in ranges])) + 1
        return [
            slice(start if first else 0, end)
            for (first, _), start, end in zip(ranges, starts.tolist(), ends.tolist(), strict=True)
        ]

    def _like(self, keys: Sequence[int]) -> Keys:
        """Plain integers as keys of the same width."""
        low = np.array([key & _LOW_HALF for key in keys], dtype=np.uint64)
        return Keys(low, None if self.hi is None else np.array([key >> 64 for key in keys], dtype=np.uint64))

    def at(self, index: int) -> int:
        """One key as a plain integer."""
        low = int(self.lo[index])
        return low if self.hi is None else (int(self.hi[index]) << 64) | low


def concat_keys(parts: Sequence[Keys]) -> Keys:
    """All parts one after the other; they agree on their width."""
    lo = np.concatenate([part.lo for part in parts])
    highs = [part.hi for part in parts if part.hi is not None]
    return Keys(lo, np.concatenate(highs) if highs else None)


def last_not_above(first: Keys, keys: Keys) -> Indices:
    """For each key: the last place in `first` that is not greater, or −1."""
    if first.hi is None or keys.hi is None:
        return np.searchsorted(first.lo, keys.lo, side="right") - 1
    found: Indices = np.searchsorted(first.hi, keys.hi, side="right") - 1
    least = np.searchsorted(first.hi, keys.hi, side="left") - 1
    tied = np.flatnonzero(found > least)  # their high half alone does not decide
    if len(tied):
        found[tied] = _last_of_tied(first.lo, keys.lo[tied], least[tied], found[tied])
    return found


def _last_of_tied(first: U64, keys: U64, least: Indices, most: Indices) -> Indices:
    """For each key: the last place after `least` and up to `most` that is not greater, or `least`."""
    step = 1 << int((most - least).max()).bit_length()
    found = least
    while step:
        at = found + step
        ok = at <= most
        ok &= first[np.where(ok, at, 0)] <= keys
        found = np.where(ok, at, found)
        step >>= 1
    return found


def not_above(left_hi: U64, left_lo: U64, right_hi: U64, right_lo: U64) -> Mask:
    """Whether each left key of two halves is less than or equal to the right one."""
    found: Mask = (left_hi < right_hi) | ((left_hi == right_hi) & (left_lo <= right_lo))
    return found


def are_among(keys: Keys, known: Keys) -> Mask:
    """Which keys are among the known ones, which must be ascending."""
    if not len(known):
        return np.zeros(len(keys), dtype=np.bool_)
    place = np.maximum(last_not_above(known, keys), 0)
    same: Mask = known.lo[place] == keys.lo
    if known.hi is not None and keys.hi is not None:
        same &= known.hi[place] == keys.hi
    return same
