"""Late events of keys that the index does not know any more, because tombstones expire.

Such a key was never there, or it was deleted so long ago that its tombstone has expired. Only the changelog can tell,
and only an event that is not newer than the newest expired tombstone raises the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pyiceberg.io import FileIO

from icemirror.errors import Conflict
from spark_job.change_file import ChangeFile
from spark_job.collapse import Changes, read_changes
from spark_job.key_index.keys import U64, Mask, are_among, last_not_above
from spark_job.key_index.orders import compare_orders, exceeds
from spark_job.locate import ABSENT, Located
from spark_job.shape import ChangelogShape


class NeedsHistory(Conflict):
    """The slice must be planned again, with the changelog's history at hand."""


def find_doubtful(orders: U64, located: Located, expired: tuple[int, ...] | None) -> Mask:
    """The events whose key may have had a tombstone that is newer: a late delete must not leave an older one."""
    if expired is None:
        return np.zeros(len(orders), dtype=np.bool_)
    absent: Mask = located.file == ABSENT
    return absent & ~exceeds(orders, expired)


def settle(
    io: FileIO,
    history: Sequence[ChangeFile],
    shape: ChangelogShape,
    changes: Changes,
    orders: U64,
    located: Located,
    doubtful: Mask,
) -> Located:
    """What was located; a doubtful event is marked as older where the changelog has a newer event of its key."""
    places = np.flatnonzero(doubtful)
    keys, asked = changes.keys.take(places), orders[places]
    older = np.zeros(len(places), dtype=np.bool_)
    for ordinal, file in enumerate(history):
        events = read_changes(io, file, ordinal, shape)
        events = events.take(are_among(events.keys, keys))
        if len(events):
            at = last_not_above(keys, events.keys)
            numbers = np.full(len(events), file.sequence_number, dtype=np.uint64)
            newer = compare_orders(np.column_stack([events.sequence, numbers]), asked[at]) > 0
            older[at[newer]] = True
    decided = located.newer.copy()
    decided[places[older]] = -1
    return replace(located, newer=decided)
