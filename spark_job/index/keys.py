"""Encoded keys as unsigned numpy columns: 64 bits, or 128 bits as two halves, compared high half first."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_job.columns.arrays import U64, Indices, Mask

_LOW_HALF = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Keys:
    """A column of keys. `hi` is None if keys have 64 bits."""

    lo: U64
    hi: U64 | None = None

    def __len__(self) -> int:
        return len(self.lo)

    @property
    def leading(self) -> U64:
        """The leading 64 bits of each key."""
        return self.lo if self.hi is None else self.hi

    def take(self, indices: Indices | Mask | slice) -> Keys:
        """Return the keys at these indices."""
        return Keys(self.lo[indices], None if self.hi is None else self.hi[indices])

    def argsort(self) -> Indices:
        """Return the indices that sort the keys ascending. The sort is stable."""
        if self.hi is None:
            return np.argsort(self.lo, kind="stable")
        return np.lexsort((self.lo, self.hi))

    def same_as_next(self) -> Mask:
        """Return for each key but the last whether the next key is equal."""
        same_lo: Mask = self.lo[1:] == self.lo[:-1]
        return same_lo if self.hi is None else same_lo & (self.hi[1:] == self.hi[:-1])

    def follows_previous(self) -> Mask:
        """Return for each key but the first whether it is the previous key + 1 (with an equal high half)."""
        next_lo: Mask = self.lo[1:] - self.lo[:-1] == np.uint64(1)
        return next_lo if self.hi is None else next_lo & (self.hi[1:] == self.hi[:-1])

    def slice_between(self, first: int, last: int) -> slice:
        """Return the slice of the keys from `first` to `last`. The keys must be ascending."""
        indices = range(len(self))
        return slice(bisect_left(indices, first, key=self.at), bisect_right(indices, last, key=self.at))

    def slices_between(self, ranges: Sequence[tuple[int, int]]) -> list[slice]:
        """Return the slices of many ranges (first, last), with one vectorized search."""
        starts = floor_indices(self, self._from_integers([max(first, 1) - 1 for first, _ in ranges])) + 1
        ends = floor_indices(self, self._from_integers([last for _, last in ranges])) + 1
        return [
            slice(start if first else 0, end)
            for (first, _), start, end in zip(ranges, starts.tolist(), ends.tolist(), strict=True)
        ]

    def _from_integers(self, keys: Sequence[int]) -> Keys:
        """Return plain integers as keys of the same width."""
        low = np.array([key & _LOW_HALF for key in keys], dtype=np.uint64)
        return Keys(low, None if self.hi is None else np.array([key >> 64 for key in keys], dtype=np.uint64))

    def at(self, index: int) -> int:
        """Return one key as a plain integer."""
        low = int(self.lo[index])
        return low if self.hi is None else (int(self.hi[index]) << 64) | low


def concat_keys(parts: Sequence[Keys]) -> Keys:
    """Return the keys of all parts, which must have one width."""
    lo = np.concatenate([part.lo for part in parts])
    highs = [part.hi for part in parts if part.hi is not None]
    return Keys(lo, np.concatenate(highs) if highs else None)


def floor_indices(first: Keys, keys: Keys) -> Indices:
    """Return for each key the last index in the ascending `first` whose value is ≤ the key, or −1.

    With two halves: a search on the high halves gives the candidates `lower` < index ≤ `floor`. Only where several
    candidates share the key's high half, a binary search on their low halves decides.
    """
    if first.hi is None or keys.hi is None:
        return np.searchsorted(first.lo, keys.lo, side="right") - 1
    floor: Indices = np.searchsorted(first.hi, keys.hi, side="right") - 1
    lower = np.searchsorted(first.hi, keys.hi, side="left") - 1
    tied = np.flatnonzero(floor > lower)
    if len(tied):
        floor[tied] = _floor_between(first.lo, keys.lo[tied], lower[tied], floor[tied])
    return floor


def _floor_between(first: U64, keys: U64, lower: Indices, upper: Indices) -> Indices:
    """Return for each key the last index in (lower, upper] whose value is ≤ the key, or `lower`.

    One binary search for all keys at once: each round halves the step and moves those that may advance.
    """
    step = 1 << int((upper - lower).max()).bit_length()
    index = lower
    while step:
        candidate = index + step
        qualifies = candidate <= upper
        qualifies &= first[np.where(qualifies, candidate, 0)] <= keys
        index = np.where(qualifies, candidate, index)
        step >>= 1
    return index


def less_or_equal(left_hi: U64, left_lo: U64, right_hi: U64, right_lo: U64) -> Mask:
    """Return for each pair of keys in two halves whether left ≤ right."""
    is_less_or_equal: Mask = (left_hi < right_hi) | ((left_hi == right_hi) & (left_lo <= right_lo))
    return is_less_or_equal


def find_in_runs(keys: Keys, first: Keys, length: U64 | np.uint64) -> tuple[U64, Mask]:
    """Return for each key its offset in a run of `length` keys from `first`, and whether the run contains it.

    One run per key. No first key may be greater than the key; an offset is valid only if the run contains the key.
    """
    offset = keys.lo - first.lo
    is_inside = offset < length
    if keys.hi is not None and first.hi is not None:
        is_inside &= keys.hi == first.hi
    return offset, is_inside


def isin_sorted(keys: Keys, sorted_keys: Keys) -> Mask:
    """Return which keys are in `sorted_keys`, which must be ascending."""
    if not len(sorted_keys):
        return np.zeros(len(keys), dtype=np.bool_)
    index = np.maximum(floor_indices(sorted_keys, keys), 0)
    is_equal: Mask = sorted_keys.lo[index] == keys.lo
    if sorted_keys.hi is not None and keys.hi is not None:
        is_equal &= sorted_keys.hi[index] == keys.hi
    return is_equal
