"""Resolves late events that the index alone cannot resolve, by reading the changelog up to the cursor.

* Late events of keys that are not in the index. Such a key never existed, or its tombstone has expired. Only events
  not newer than the newest expired tombstone are unresolved.
* All changes of a replay. A replay merges a range of the changelog slice by slice. A change may apply only if it is the
  newest of its key up to the cursor; otherwise a row would go back to an older state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.read_events import read_events
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.arrays import U64, Mask
from spark_job.index.keys import floor_indices, isin_sorted
from spark_job.index.orders import compare_orders, is_greater
from spark_job.merge.locate import ABSENT, LocatedKeys
from spark_job.merge.shard_result import HistoryNeeded
from spark_job.merge.slice_work import SliceWork


def decide_late_events(
    work: SliceWork, changes: EventBatch, orders: U64, located: LocatedKeys
) -> LocatedKeys | HistoryNeeded:
    """Return `located` with late events decided by the changelog's history; `HistoryNeeded` if the work lacks it."""
    if work.is_replay:
        located, unresolved = find_replay_changes(orders, located, work.newest_expired_tombstone_order)
    else:
        unresolved = find_possibly_late_events(orders, located, work.newest_expired_tombstone_order)
    if not unresolved.any():
        return located
    if work.history is None:
        problem = "would change" if work.is_replay else "may have had tombstones that have expired"
        return HistoryNeeded(f"{int(unresolved.sum())} keys {problem}")
    ranks = _ranks_in_history(work.files, work.history)[changes.file] if work.is_replay else None
    return resolve_late_events(
        work.changelog_io, work.history, work.shape, changes, orders, located, unresolved, ranks
    )


def _ranks_in_history(files: Sequence[ChangelogFile], history: Sequence[ChangelogFile]) -> NDArray[np.int64]:
    """Return the index of each file of a replay in the history; −1 if the history does not contain it."""
    ranks = {file.path: rank for rank, file in enumerate(history)}
    return np.array([ranks.get(file.path, -1) for file in files], dtype=np.int64)


def find_possibly_late_events(
    orders: U64, located: LocatedKeys, newest_expired_tombstone_order: tuple[int, ...] | None
) -> Mask:
    """Return which events may be late: their key may have had a newer tombstone, which has expired."""
    if newest_expired_tombstone_order is None:
        return np.zeros(len(orders), dtype=np.bool_)
    is_absent: Mask = located.file == ABSENT
    return is_absent & ~is_greater(orders, newest_expired_tombstone_order)


def find_replay_changes(
    orders: U64, located: LocatedKeys, newest_expired_tombstone_order: tuple[int, ...] | None
) -> tuple[LocatedKeys, Mask]:
    """Return the located keys, and which changes a replay would apply.

    A key whose tombstone may have expired is skipped: another writer may have deleted it.
    """
    order_comparison = np.where(
        find_possibly_late_events(orders, located, newest_expired_tombstone_order),
        np.int8(0),
        located.order_comparison,
    )
    return replace(located, order_comparison=order_comparison), order_comparison > 0


def resolve_late_events(
    io: FileIO,
    history: Sequence[ChangelogFile],
    shape: ChangelogShape,
    changes: EventBatch,
    orders: U64,
    located: LocatedKeys,
    unresolved: Mask,
    ranks: NDArray[np.int64] | None = None,
) -> LocatedKeys:
    """Return `located` with unresolved changes set to older where the changelog has a newer event of their key.

    `ranks`: for each change, the index of its file in the history; between equal orders the later file wins.
    """
    indices = np.flatnonzero(unresolved)
    change_ranks = np.full(len(indices), len(history)) if ranks is None else ranks[indices]
    keys, change_orders = changes.keys.take(indices), orders[indices]
    is_older = np.zeros(len(indices), dtype=np.bool_)
    for ordinal, file in enumerate(history):
        events = read_events(io, file, ordinal, shape)
        events = events.take(isin_sorted(events.keys, keys))
        if len(events):
            key_index = floor_indices(keys, events.keys)
            sequence_numbers = np.full(len(events), file.sequence_number, dtype=np.uint64)
            history_orders = np.column_stack([events.sequence, sequence_numbers])
            comparison = compare_orders(history_orders, change_orders[key_index])
            is_newer = (comparison > 0) | ((comparison == 0) & (change_ranks[key_index] < ordinal))
            is_older[key_index[is_newer]] = True
    order_comparison = located.order_comparison.copy()
    order_comparison[indices[is_older]] = -1
    return replace(located, order_comparison=order_comparison)
