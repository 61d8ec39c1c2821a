"""Locate: find the live row or the tombstone of each changed key in the index."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.columns.arrays import U64
from spark_job.columns.distinct import distinct
from spark_job.index.damaged_segment import DamagedSegment, reading_segment
from spark_job.index.found_keys import FoundKeys
from spark_job.index.keys import Keys
from spark_job.index.lookup import find_keys
from spark_job.index.orders import compare_orders, read_orders
from spark_job.index.segment import TOMBSTONE, SegmentInfo
from spark_job.storage.parallel import is_remote, segment_pool

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


@dataclass(frozen=True)
class SearchableIndex:
    """The segments of an index, newest first, and the ordinals of data files that are no longer in the table."""

    io: FileIO
    segments: tuple[SegmentInfo, ...] = ()
    removed_ordinals: frozenset[int] = frozenset()

    def ordinals(self, layer: Layer, hits: FoundKeys) -> NDArray[np.int32]:
        """Return the ordinal of the data file of each hit; a row in a removed file counts as a tombstone."""
        sizes = np.array([len(segment.files) for segment in layer])
        beyond = np.flatnonzero(hits.file >= sizes[hits.segment_index])
        if len(beyond):
            path = layer[hits.segment_index[beyond[0]]].path
            raise DamagedSegment(path, f"an entry names a data file that the segment does not list: {path}")
        files = chain.from_iterable(segment.files for segment in layer)
        # A tombstone is file −1: the last element.
        ordinals = np.array(
            [TOMBSTONE if ordinal in self.removed_ordinals else ordinal for ordinal in (*files, TOMBSTONE)],
            dtype=np.int32,
        )
        first_file = np.cumsum(sizes) - sizes  # of each segment, in `files`
        return ordinals[np.where(hits.file < 0, -1, first_file[hits.segment_index] + hits.file)]


def locate_keys(index: SearchableIndex, keys: Keys, orders: U64) -> LocatedKeys:
    """Return the newest index entry of each key, and how the order of its event compares. Keys must be ascending."""
    file = np.full(len(keys), ABSENT, dtype=np.int32)
    pos = np.zeros(len(keys), dtype=np.int64)
    order_comparison = np.ones(len(keys), dtype=np.int8)
    for layer, hits in _search_layers(index, keys):
        key_index = hits.key_index
        file[key_index] = index.ordinals(layer, hits)
        pos[key_index] = hits.pos
        greatest_orders = np.array([segment.greatest_order for segment in layer], dtype=np.uint64)
        # Above the greatest order of the segment, an event is newer without reading the entry's order.
        late = compare_orders(orders[key_index], greatest_orders[hits.segment_index]) <= 0
        if late.any():
            late_keys, entry_orders = key_index[late], _read_orders(index.io, layer, hits.take(late))
            order_comparison[late_keys] = compare_orders(orders[late_keys], entry_orders)
    return LocatedKeys(file, pos, order_comparison)


@dataclass(frozen=True, slots=True)
class KeyEntries:
    """The index entry of each key: data file (−1, −2 as in `LocatedKeys`), position and order."""

    file: NDArray[np.int32]
    pos: NDArray[np.int64]
    orders: U64


def read_key_entries(index: SearchableIndex, keys: Keys, default_order: tuple[int, ...]) -> KeyEntries:
    """Return the entries of these keys, which must be ascending. Keys without one get the order `default_order`."""
    file = np.full(len(keys), ABSENT, dtype=np.int32)
    pos = np.zeros(len(keys), dtype=np.int64)
    orders = np.tile(np.array(default_order, dtype=np.uint64), (len(keys), 1))
    for layer, hits in _search_layers(index, keys):
        file[hits.key_index] = index.ordinals(layer, hits)
        pos[hits.key_index] = hits.pos
        orders[hits.key_index] = _read_orders(index.io, layer, hits)
    return KeyEntries(file, pos, orders)


def _read_orders(io: FileIO, layer: Layer, hits: FoundKeys) -> U64:
    orders = np.empty((len(hits.key_index), len(layer[0].greatest_order)), dtype=np.uint64)
    for segment_index in distinct(hits.segment_index):
        in_segment, segment = hits.segment_index == segment_index, layer[segment_index]
        with reading_segment(segment.path):
            orders[in_segment] = read_orders(
                io, segment.path, segment.orders, hits.entry[in_segment], orders.shape[1]
            )
    return orders


def _search_layers(index: SearchableIndex, keys: Keys) -> Iterator[tuple[Layer, FoundKeys]]:
    """Yield each layer, newest first, with its hits for the keys that no newer layer contains."""
    unresolved = np.ones(len(keys), dtype=np.bool_)
    layers = list(_layers(index.segments))
    prefetched = _prefetch(index, layers, keys)
    for layer_index, layer in enumerate(layers):
        if layer_index in prefetched:
            hits = prefetched[layer_index].result()
            hits = hits.take(unresolved[hits.key_index])
        else:
            indices = np.flatnonzero(unresolved)
            hits = find_keys(index.io, layer, keys.take(indices))
            hits = replace(hits, key_index=indices[hits.key_index])
        if len(hits.key_index):
            yield layer, hits
            unresolved[hits.key_index] = False


def _prefetch(index: SearchableIndex, layers: list[Layer], keys: Keys) -> dict[int, Future[FoundKeys]]:
    """Return searches of the small layers on an object store, by layer, which run concurrently for all keys."""
    small_layers = [
        layer_index
        for layer_index, layer in enumerate(layers)
        if sum(segment.bytes for segment in layer) <= _PREFETCHED_LAYER_BYTES and is_remote(layer[0].path)
    ]
    return {
        layer_index: segment_pool().submit(find_keys, index.io, layers[layer_index], keys)
        for layer_index in small_layers
    }


def _layers(segments: tuple[SegmentInfo, ...]) -> Iterator[Layer]:
    """Yield groups of segments of consecutive age with disjoint key ranges: their order does not matter."""
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
