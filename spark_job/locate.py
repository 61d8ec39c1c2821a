"""Locate: the live row, or the tombstone, of each changed key; and what each change therefore does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.collapse import Changes
from spark_job.key_index.keys import U64, Keys, Mask
from spark_job.key_index.lookup import find_keys
from spark_job.key_index.orders import compare_orders, exceeds, read_orders
from spark_job.key_index.segment import SegmentInfo
from spark_job.shape import Operation

ABSENT = -2
DEAD = -1


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


def locate_keys(io: FileIO, segments: tuple[SegmentInfo, ...], keys: Keys, orders: U64) -> Located:
    """Asks the segments, newest first; the first that knows a key decides. Keys must be ascending."""
    count = len(keys)
    file = np.full(count, ABSENT, dtype=np.int32)
    pos = np.zeros(count, dtype=np.int64)
    newer = np.ones(count, dtype=np.int8)
    open_keys = np.arange(count, dtype=np.intp)
    for segment in segments:
        left = keys.take(open_keys)
        within = left.bounds(segment.first_key, segment.last_key)
        if within.start == within.stop:
            continue
        found = find_keys(io, segment, left.take(within))
        asked = found.asked + within.start
        hits = open_keys[asked]
        ordinals = np.array(
            [*segment.files, DEAD], dtype=np.int32
        )  # −1 picks the last: a tombstone stays one
        file[hits] = ordinals[found.file]
        pos[hits] = found.pos
        late = ~exceeds(orders[hits], segment.greatest)
        if late.any():
            known = read_orders(io, segment.path, segment.orders, found.entry[late], orders.shape[1])
            newer[hits[late]] = compare_orders(orders[hits[late]], known)
        undecided = np.ones(len(open_keys), dtype=np.bool_)
        undecided[asked] = False
        open_keys = open_keys[undecided]
    return Located(file, pos, newer)


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
