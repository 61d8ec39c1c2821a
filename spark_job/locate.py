"""Locate: the live row, or the tombstone, of each changed key; and what each change therefore does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.collapse import Changes
from spark_job.key_index.damage import reading_segment
from spark_job.key_index.keys import U64, Indices, Keys, Mask
from spark_job.key_index.lookup import NOTHING, Found, find_keys
from spark_job.key_index.orders import compare_orders, exceeds, read_orders
from spark_job.key_index.ranges import askers, is_remote
from spark_job.key_index.segment import SegmentInfo
from spark_job.shape import Operation

ABSENT = -2
DEAD = -1
_SMALL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Located:
    """For each key: the ordinal of its data file (−1: a tombstone, −2: never seen), the position, and whether a change
    of the given order is older (−1), equal (0) or newer (1) than what is there."""

    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    newer: NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Fate:
    """Which changes write a row, which leave a tombstone, which old rows go; masks over the collapsed changes."""

    writes: Mask
    tombstones: Mask
    removes: Mask
    inserted: int
    updated: int
    deleted: int
    stale: int
    unchanged: int


@dataclass(frozen=True)
class Index:
    """What there is to ask: segments, newest first, and the ordinals of data files that are gone from the table."""

    io: FileIO
    segments: tuple[SegmentInfo, ...] = ()
    gone: frozenset[int] = frozenset()

    def ordinals(self, segment: SegmentInfo) -> NDArray[np.int32]:
        """What the segment's ordinals mean; −1 picks the last: a tombstone stays one, as do rows that are gone."""
        files = [DEAD if ordinal in self.gone else ordinal for ordinal in segment.files]
        return np.array([*files, DEAD], dtype=np.int32)


def locate_keys(index: Index, keys: Keys, orders: U64) -> Located:
    """Asks the segments, newest first; the first that knows a key decides. Keys must be ascending."""
    file = np.full(len(keys), ABSENT, dtype=np.int32)
    pos = np.zeros(len(keys), dtype=np.int64)
    newer = np.ones(len(keys), dtype=np.int8)
    for segment, hits, found in _ask(index, keys):
        file[hits] = index.ordinals(segment)[found.file]
        pos[hits] = found.pos
        late = ~exceeds(orders[hits], segment.greatest)
        if late.any():
            with reading_segment(segment.path):
                known = read_orders(
                    index.io, segment.path, segment.orders, found.entry[late], orders.shape[1]
                )
            newer[hits[late]] = compare_orders(orders[hits[late]], known)
    return Located(file, pos, newer)


@dataclass(frozen=True, slots=True)
class Known:
    """For each key what the index says of it: the ordinal of its data file (−1, −2 as above), position and order."""

    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    orders: U64


def look_up(index: Index, keys: Keys, otherwise: tuple[int, ...]) -> Known:
    """All that is known of these keys, which must be ascending; an order of those that are not known is given."""
    file = np.full(len(keys), ABSENT, dtype=np.int32)
    pos = np.zeros(len(keys), dtype=np.int64)
    orders = np.tile(np.array(otherwise, dtype=np.uint64), (len(keys), 1))
    for segment, hits, found in _ask(index, keys):
        file[hits] = index.ordinals(segment)[found.file]
        pos[hits] = found.pos
        if len(hits):
            with reading_segment(segment.path):
                orders[hits] = read_orders(
                    index.io, segment.path, segment.orders, found.entry, len(segment.greatest)
                )
    return Known(file, pos, orders)


def _ask(index: Index, keys: Keys) -> Iterator[tuple[SegmentInfo, Indices, Found]]:
    """The answer of each segment to the keys that no newer one knew, with the places of those that it knows."""
    is_open = np.ones(len(keys), dtype=np.bool_)
    ahead = _ask_ahead(index, keys)
    for segment in index.segments:
        with reading_segment(segment.path):
            if segment.path in ahead:
                answer = ahead[segment.path].result()
                found = answer.take(is_open[answer.asked])
            else:
                places = np.flatnonzero(is_open)
                found = _find(index, segment, keys.take(places))
                found = replace(found, asked=places[found.asked])
        if len(found.asked):
            yield segment, found.asked, found
            is_open[found.asked] = False


def _ask_ahead(index: Index, keys: Keys) -> dict[str, Future[Found]]:
    """On an object store: the answers of small segments to all keys, asked for at once rather than in turn."""
    small = [one for one in index.segments if one.bytes <= _SMALL_BYTES and is_remote(one.path)]
    return {segment.path: askers().submit(_find, index, segment, keys) for segment in small}


def _find(index: Index, segment: SegmentInfo, keys: Keys) -> Found:
    within = keys.bounds(segment.first_key, segment.last_key)
    if within.start == within.stop:
        return NOTHING
    found = find_keys(index.io, segment, keys.take(within))
    return replace(found, asked=found.asked + within.start)


def decide(changes: Changes, located: Located, *, replay: bool = False) -> Fate:
    """What each change does.

    Moving forward, a change that equals what is there in sequence and snapshot comes from a later file of that
    snapshot, and wins. A replay sees events a second time: it applies only what is greater.
    """
    applies = located.newer > 0 if replay else located.newer >= 0
    upsert = changes.operation == Operation.UPSERT
    live = located.file >= 0
    writes = applies & upsert
    tombstones = applies & ~upsert
    stale = located.newer < 0
    return Fate(
        writes=writes,
        tombstones=tombstones,
        removes=applies & live,
        inserted=int((writes & ~live).sum()),
        updated=int((writes & live).sum()),
        deleted=int((tombstones & live).sum()),
        stale=int(stale.sum()),
        unchanged=int((tombstones & ~live).sum() + (~applies & ~stale).sum()),
    )
