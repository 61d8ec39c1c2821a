"""Locate: find the live row or the tombstone of each changed key, and decide the effect of each change."""

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
from spark_job.columns.distinct import distinct
from spark_job.index.byte_ranges import segment_pool
from spark_job.index.keys import U64, Keys, Mask
from spark_job.index.lookup import FoundKeys, find_keys
from spark_job.index.orders import compare_orders, read_orders
from spark_job.index.segment import DamagedSegment, SegmentInfo, reading_segment
from spark_job.storage.parallel import is_remote

ABSENT = -2
DEAD = -1
_PREFETCHED_LAYER_BYTES = 1 << 20

Layer = tuple[SegmentInfo, ...]
"""Segments with disjoint key ranges."""


@dataclass(frozen=True, slots=True)
class LocatedKeys:
    """Per key: the ordinal of its data file (−1: a tombstone, −2: not in the index), its position, and `newer`: whether
    the change is older (−1), equal (0) or newer (1) than the entry."""

    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    newer: NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class ChangeEffects:
    """Which changes write a row, write a tombstone, remove an old row: masks over the collapsed changes, and counts."""

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
    """The segments, newest first, and the ordinals of data files that are no longer in the table."""

    io: FileIO
    segments: tuple[SegmentInfo, ...] = ()
    gone: frozenset[int] = frozenset()

    def ordinals(self, layer: Layer, found: FoundKeys) -> NDArray[np.int32]:
        """Return the data file of each found key; a row in a removed file counts as a tombstone."""
        sizes = np.array([len(segment.files) for segment in layer])
        beyond = np.flatnonzero(found.file >= sizes[found.of])
        if len(beyond):
            path = layer[found.of[beyond[0]]].path
            raise DamagedSegment(path, f"an entry names a data file that the segment does not list: {path}")
        files = chain.from_iterable(segment.files for segment in layer)
        of_root = np.array([DEAD if one in self.gone else one for one in (*files, DEAD)], dtype=np.int32)
        begins = np.cumsum(sizes) - sizes
        return of_root[np.where(found.file < 0, -1, begins[found.of] + found.file)]


def locate_keys(index: Index, keys: Keys, orders: U64) -> LocatedKeys:
    """Search the segments, newest first; the first that contains a key wins. Keys must be ascending."""
    file = np.full(len(keys), ABSENT, dtype=np.int32)
    pos = np.zeros(len(keys), dtype=np.int64)
    newer = np.ones(len(keys), dtype=np.int8)
    for layer, found in _search_layers(index, keys):
        hits = found.asked
        file[hits] = index.ordinals(layer, found)
        pos[hits] = found.pos
        greatest = np.array([segment.greatest for segment in layer], dtype=np.uint64)
        late = compare_orders(orders[hits], greatest[found.of]) <= 0
        if late.any():
            known = _read_orders(index.io, layer, found.take(late))
            newer[hits[late]] = compare_orders(orders[hits[late]], known)
    return LocatedKeys(file, pos, newer)


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """Per key: the ordinal of its data file (−1, −2 as in `LocatedKeys`), its position and its order."""

    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    orders: U64


def look_up_keys(index: Index, keys: Keys, otherwise: tuple[int, ...]) -> KeyLookup:
    """Return the entries of these keys, which must be ascending. Keys without one get the order `otherwise`."""
    file = np.full(len(keys), ABSENT, dtype=np.int32)
    pos = np.zeros(len(keys), dtype=np.int64)
    orders = np.tile(np.array(otherwise, dtype=np.uint64), (len(keys), 1))
    for layer, found in _search_layers(index, keys):
        file[found.asked] = index.ordinals(layer, found)
        pos[found.asked] = found.pos
        orders[found.asked] = _read_orders(index.io, layer, found)
    return KeyLookup(file, pos, orders)


def _read_orders(io: FileIO, layer: Layer, found: FoundKeys) -> U64:
    orders = np.empty((len(found.asked), len(layer[0].greatest)), dtype=np.uint64)
    for of in distinct(found.of):
        here, segment = found.of == of, layer[of]
        with reading_segment(segment.path):
            orders[here] = read_orders(io, segment.path, segment.orders, found.entry[here], orders.shape[1])
    return orders


def _search_layers(index: Index, keys: Keys) -> Iterator[tuple[Layer, FoundKeys]]:
    """Yield what each layer contains of the keys that no newer layer contains."""
    is_open = np.ones(len(keys), dtype=np.bool_)
    layers = list(_layers(index.segments))
    prefetched = _prefetch(index, layers, keys)
    for number, layer in enumerate(layers):
        if number in prefetched:
            answer = prefetched[number].result()
            found = answer.take(is_open[answer.asked])
        else:
            places = np.flatnonzero(is_open)
            answer = find_keys(index.io, layer, keys.take(places))
            found = replace(answer, asked=places[answer.asked])
        if len(found.asked):
            yield layer, found
            is_open[found.asked] = False


def _prefetch(index: Index, layers: list[Layer], keys: Keys) -> dict[int, Future[FoundKeys]]:
    """Search the small layers on an object store for all keys concurrently, instead of one after the other."""
    small = [
        number
        for number, layer in enumerate(layers)
        if sum(one.bytes for one in layer) <= _PREFETCHED_LAYER_BYTES and is_remote(layer[0].path)
    ]
    return {number: segment_pool().submit(find_keys, index.io, layers[number], keys) for number in small}


def _layers(segments: tuple[SegmentInfo, ...]) -> Iterator[Layer]:
    """Group segments of consecutive age with disjoint key ranges: their order does not matter."""
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


def decide_effects(changes: Changes, located: LocatedKeys, *, replay: bool = False) -> ChangeEffects:
    """Decide the effect of each change.

    In a merge, a change whose order equals the entry's comes from a later file of the same snapshot, and wins. A replay
    reads events a second time: only greater ones apply.
    """
    applies = located.newer > 0 if replay else located.newer >= 0
    upsert = changes.operation == Operation.UPSERT
    live = located.file >= 0
    writes = applies & upsert
    tombstones = applies & ~upsert
    stale = located.newer < 0
    return ChangeEffects(
        writes=writes,
        tombstones=tombstones,
        removes=applies & live,
        inserted=int((writes & ~live).sum()),
        updated=int((writes & live).sum()),
        deleted=int((tombstones & live).sum()),
        stale=int(stale.sum()),
        unchanged=int((tombstones & ~live).sum() + (~applies & ~stale).sum()),
    )
