"""Locate: the live row, or the tombstone, of each changed key; and what each change therefore does."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.changelog.changes import Changes
from spark_job.changelog.shape import Operation
from spark_job.distinct import distinct
from spark_job.files.round_trips import is_remote
from spark_job.key_index.damage import DamagedSegment, reading_segment
from spark_job.key_index.keys import U64, Keys, Mask
from spark_job.key_index.lookup import Found, find_keys
from spark_job.key_index.orders import compare_orders, read_orders
from spark_job.key_index.ranges import askers
from spark_job.key_index.segment import SegmentInfo

ABSENT = -2
DEAD = -1
_SMALL_BYTES = 1 << 20

Layer = tuple[SegmentInfo, ...]
"""Segments whose ranges of keys do not overlap."""


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

    def ordinals(self, layer: Layer, found: Found) -> NDArray[np.int32]:
        """The data file of each; rows of files that are gone are tombstones."""
        sizes = np.array([len(segment.files) for segment in layer])
        beyond = np.flatnonzero(found.file >= sizes[found.of])
        if len(beyond):
            path = layer[found.of[beyond[0]]].path
            raise DamagedSegment(path, f"{path}: an entry is of a data file that the segment does not list")
        files = chain.from_iterable(segment.files for segment in layer)
        of_root = np.array([DEAD if one in self.gone else one for one in (*files, DEAD)], dtype=np.int32)
        begins = np.cumsum(sizes) - sizes
        return of_root[np.where(found.file < 0, -1, begins[found.of] + found.file)]


def locate_keys(index: Index, keys: Keys, orders: U64) -> Located:
    """Asks the segments, newest first; the first that knows a key decides. Keys must be ascending."""
    file = np.full(len(keys), ABSENT, dtype=np.int32)
    pos = np.zeros(len(keys), dtype=np.int64)
    newer = np.ones(len(keys), dtype=np.int8)
    for layer, found in _ask(index, keys):
        hits = found.asked
        file[hits] = index.ordinals(layer, found)
        pos[hits] = found.pos
        greatest = np.array([segment.greatest for segment in layer], dtype=np.uint64)
        late = compare_orders(orders[hits], greatest[found.of]) <= 0
        if late.any():
            known = _read_orders(index.io, layer, found.take(late))
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
    for layer, found in _ask(index, keys):
        file[found.asked] = index.ordinals(layer, found)
        pos[found.asked] = found.pos
        orders[found.asked] = _read_orders(index.io, layer, found)
    return Known(file, pos, orders)


def _read_orders(io: FileIO, layer: Layer, found: Found) -> U64:
    orders = np.empty((len(found.asked), len(layer[0].greatest)), dtype=np.uint64)
    for of in distinct(found.of):
        here, segment = found.of == of, layer[of]
        with reading_segment(segment.path):
            orders[here] = read_orders(io, segment.path, segment.orders, found.entry[here], orders.shape[1])
    return orders


def _ask(index: Index, keys: Keys) -> Iterator[tuple[Layer, Found]]:
    """The answer of each layer to the keys that no newer one knew."""
    is_open = np.ones(len(keys), dtype=np.bool_)
    layers = list(_layers(index.segments))
    ahead = _ask_ahead(index, layers, keys)
    for number, layer in enumerate(layers):
        if number in ahead:
            answer = ahead[number].result()
            found = answer.take(is_open[answer.asked])
        else:
            places = np.flatnonzero(is_open)
            answer = find_keys(index.io, layer, keys.take(places))
            found = replace(answer, asked=places[answer.asked])
        if len(found.asked):
            yield layer, found
            is_open[found.asked] = False


def _ask_ahead(index: Index, layers: list[Layer], keys: Keys) -> dict[int, Future[Found]]:
    """On an object store: the answers of small layers to all keys, asked for at once rather than in turn."""
    small = [
        number
        for number, layer in enumerate(layers)
        if sum(one.bytes for one in layer) <= _SMALL_BYTES and is_remote(layer[0].path)
    ]
    return {number: askers().submit(find_keys, index.io, layers[number], keys) for number in small}


def _layers(segments: tuple[SegmentInfo, ...]) -> Iterator[Layer]:
    """Neighbours in age whose ranges do not overlap: which of them is asked first does not matter."""
    layer: list[SegmentInfo] = []
    ranges: list[tuple[int, int]] = []
    for segment in segments:
        place = bisect(ranges, (segment.first_key, segment.last_key))
        if (place and ranges[place - 1][1] >= segment.first_key) or (
            place < len(ranges) and ranges[place][0] <= segment.last_key
        ):
            yield tuple(layer)
            layer, ranges, place = [], [], 0
        layer.append(segment)
        ranges.insert(place, (segment.first_key, segment.last_key))
    if layer:
        yield tuple(layer)


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
