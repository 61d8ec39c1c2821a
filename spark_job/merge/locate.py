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
from spark_job.index.segment import TOMBSTONE, DamagedSegment, SegmentInfo, reading_segment
from spark_job.storage.parallel import is_remote

ABSENT = -2
_PREFETCHED_LAYER_BYTES = 1 << 20

Layer = tuple[SegmentInfo, ...]
"""Segments with disjoint key ranges."""


@dataclass(frozen=True, slots=True)
class LocatedKeys:
    """Per key: the ordinal of its data file (−1: a tombstone, −2: not in the index), and its position.

    `order_comparison`: whether the event is older (−1), equal (0) or newer (1) than the entry.
    """

    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    order_comparison: NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class EventEffects:
    """Masks over the collapsed events: which write a row, write a tombstone, remove a row; and counts."""

    writes: Mask
    tombstones: Mask
    removes: Mask
    inserted: int
    updated: int
    deleted: int
    stale: int
    unchanged: int


@dataclass(frozen=True)
class SearchableIndex:
    """The segments, newest first, and the ordinals of data files that are no longer in the table."""

    io: FileIO
    segments: tuple[SegmentInfo, ...] = ()
    removed_ordinals: frozenset[int] = frozenset()

    def ordinals(self, layer: Layer, found: FoundKeys) -> NDArray[np.int32]:
        """Return the data file of each found key; a row in a removed file counts as a tombstone."""
        sizes = np.array([len(segment.files) for segment in layer])
        beyond = np.flatnonzero(found.file >= sizes[found.segment_index])
        if len(beyond):
            path = layer[found.segment_index[beyond[0]]].path
            raise DamagedSegment(path, f"an entry names a data file that the segment does not list: {path}")
        files = chain.from_iterable(segment.files for segment in layer)
        of_root = np.array(
            [TOMBSTONE if ordinal in self.removed_ordinals else ordinal for ordinal in (*files, TOMBSTONE)],
            dtype=np.int32,
        )
        begins = np.cumsum(sizes) - sizes
        return of_root[np.where(found.file < 0, -1, begins[found.segment_index] + found.file)]


def locate_keys(index: SearchableIndex, keys: Keys, orders: U64) -> LocatedKeys:
    """Search the segments, newest first; the first that contains a key wins. Keys must be ascending."""
    file = np.full(len(keys), ABSENT, dtype=np.int32)
    pos = np.zeros(len(keys), dtype=np.int64)
    order_comparison = np.ones(len(keys), dtype=np.int8)
    for layer, found in _search_layers(index, keys):
        hits = found.key_index
        file[hits] = index.ordinals(layer, found)
        pos[hits] = found.pos
        greatest = np.array([segment.greatest_order for segment in layer], dtype=np.uint64)
        late = compare_orders(orders[hits], greatest[found.segment_index]) <= 0
        if late.any():
            known = _read_orders(index.io, layer, found.take(late))
            order_comparison[hits[late]] = compare_orders(orders[hits[late]], known)
    return LocatedKeys(file, pos, order_comparison)


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """Per key: the ordinal of its data file (−1, −2 as in `LocatedKeys`), its position and its order."""

    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    orders: U64


def look_up_keys(index: SearchableIndex, keys: Keys, default_order: tuple[int, ...]) -> KeyLookup:
    """Return the entries of these keys, which must be ascending. Keys without one get the order `default_order`."""
    file = np.full(len(keys), ABSENT, dtype=np.int32)
    pos = np.zeros(len(keys), dtype=np.int64)
    orders = np.tile(np.array(default_order, dtype=np.uint64), (len(keys), 1))
    for layer, found in _search_layers(index, keys):
        file[found.key_index] = index.ordinals(layer, found)
        pos[found.key_index] = found.pos
        orders[found.key_index] = _read_orders(index.io, layer, found)
    return KeyLookup(file, pos, orders)


def _read_orders(io: FileIO, layer: Layer, found: FoundKeys) -> U64:
    orders = np.empty((len(found.key_index), len(layer[0].greatest_order)), dtype=np.uint64)
    for segment_index in distinct(found.segment_index):
        here, segment = found.segment_index == segment_index, layer[segment_index]
        with reading_segment(segment.path):
            orders[here] = read_orders(io, segment.path, segment.orders, found.entry[here], orders.shape[1])
    return orders


def _search_layers(index: SearchableIndex, keys: Keys) -> Iterator[tuple[Layer, FoundKeys]]:
    """Yield what each layer contains of the keys that no newer layer contains."""
    unresolved = np.ones(len(keys), dtype=np.bool_)
    layers = list(_layers(index.segments))
    prefetched = _prefetch(index, layers, keys)
    for number, layer in enumerate(layers):
        if number in prefetched:
            hits = prefetched[number].result()
            found = hits.take(unresolved[hits.key_index])
        else:
            indices = np.flatnonzero(unresolved)
            hits = find_keys(index.io, layer, keys.take(indices))
            found = replace(hits, key_index=indices[hits.key_index])
        if len(found.key_index):
            yield layer, found
            unresolved[found.key_index] = False


def _prefetch(index: SearchableIndex, layers: list[Layer], keys: Keys) -> dict[int, Future[FoundKeys]]:
    """Search the small layers on an object store for all keys concurrently, instead of one after the other."""
    small = [
        number
        for number, layer in enumerate(layers)
        if sum(segment.bytes for segment in layer) <= _PREFETCHED_LAYER_BYTES and is_remote(layer[0].path)
    ]
    return {number: segment_pool().submit(find_keys, index.io, layers[number], keys) for number in small}


def _layers(segments: tuple[SegmentInfo, ...]) -> Iterator[Layer]:
    """Group segments of consecutive age with disjoint key ranges: their order does not matter."""
    layer: list[SegmentInfo] = []
    ranges: list[tuple[int, int]] = []
    for segment in segments:
        insert_at = bisect(ranges, (segment.first_key, segment.last_key))
        if (insert_at and ranges[insert_at - 1][1] >= segment.first_key) or (
            insert_at < len(ranges) and ranges[insert_at][0] <= segment.last_key
        ):
            yield tuple(layer)
            layer, ranges, insert_at = [], [], 0
        layer.append(segment)
        ranges.insert(insert_at, (segment.first_key, segment.last_key))
    if layer:
        yield tuple(layer)


def decide_effects(changes: Changes, located: LocatedKeys, *, is_replay: bool = False) -> EventEffects:
    """Decide the effect of each change.

    In a merge, a change whose order equals the entry's comes from a later file of the same snapshot, and wins. A replay
    reads events a second time: only greater ones apply.
    """
    applies = located.order_comparison > 0 if is_replay else located.order_comparison >= 0
    upsert = changes.operation == Operation.UPSERT
    live = located.file >= 0
    writes = applies & upsert
    tombstones = applies & ~upsert
    stale = located.order_comparison < 0
    return EventEffects(
        writes=writes,
        tombstones=tombstones,
        removes=applies & live,
        inserted=int((writes & ~live).sum()),
        updated=int((writes & live).sum()),
        deleted=int((tombstones & live).sum()),
        stale=int(stale.sum()),
        unchanged=int((tombstones & ~live).sum() + (~applies & ~stale).sum()),
    )
