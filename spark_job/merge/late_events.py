"""Decides events that the index alone cannot decide, by reading the changelog up to the cursor.

* Late events of keys that are not in the index. Such a key never existed, or its tombstone has expired. Only an event
  that is not newer than the newest expired tombstone is in question.
* All changes of a replay. A replay merges a range of the changelog slice by slice. A change may apply only if it is the
  newest of its key up to the cursor; otherwise a row would go back to an older state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Conflict
from spark_job.changelog.changes import Changes
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.read_changes import read_changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.index.keys import U64, Mask, floor_indices, isin_sorted
from spark_job.index.orders import compare_orders, exceeds
from spark_job.merge.locate import ABSENT, LocatedKeys


class NeedsHistory(Conflict):
    """The slice must be planned again, with the changelog's history."""


def find_late_events(orders: U64, located: LocatedKeys, expired: tuple[int, ...] | None) -> Mask:
    """Return the events whose key may have had a newer tombstone, now expired."""
    if expired is None:
        return np.zeros(len(orders), dtype=np.bool_)
    absent: Mask = located.file == ABSENT
    return absent & ~exceeds(orders, expired)


def find_replay_changes(
    orders: U64, located: LocatedKeys, expired: tuple[int, ...] | None
) -> tuple[LocatedKeys, Mask]:
    """Return the changes of a replay.

    A key whose tombstone may have expired is skipped: another writer may have deleted it.
    """
    newer = np.where(find_late_events(orders, located, expired), np.int8(0), located.newer)
    return replace(located, newer=newer), newer > 0


def resolve_late_events(
    io: FileIO,
    history: Sequence[ChangelogFile],
    shape: ChangelogShape,
    changes: Changes,
    orders: U64,
    located: LocatedKeys,
    in_question: Mask,
    ranks: NDArray[np.int64] | None = None,
) -> LocatedKeys:
    """Mark an event in question as older where the changelog contains a newer event of its key.

    `ranks`: for each event, the index of its file in the history; between equal orders the later file wins.
    """
    indices = np.flatnonzero(in_question)
    own_rank = np.full(len(indices), len(history)) if ranks is None else ranks[indices]
    keys, their_orders = changes.keys.take(indices), orders[indices]
    older = np.zeros(len(indices), dtype=np.bool_)
    for ordinal, file in enumerate(history):
        events = read_changes(io, file, ordinal, shape)
        events = events.take(isin_sorted(events.keys, keys))
        if len(events):
            at = floor_indices(keys, events.keys)
            numbers = np.full(len(events), file.sequence_number, dtype=np.uint64)
            compared = compare_orders(np.column_stack([events.sequence, numbers]), their_orders[at])
            older[at[(compared > 0) | ((compared == 0) & (own_rank[at] < ordinal))]] = True
    decided = located.newer.copy()
    decided[indices[older]] = -1
    return replace(located, newer=decided)
