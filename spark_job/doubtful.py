"""Events of which only the changelog can tell whether they count: it is asked about all that is merged.

Late events of keys that the index does not know: such a key was never there, or it was deleted so long ago that its
tombstone has expired. Only an event that is not newer than the newest expired tombstone raises the question.

And all that a replay would change. A replay goes through a part of the changelog, slice by slice; what it brings to the
mirror must nevertheless be the last word of all that is merged, or a row would be turned back for a while, or for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Conflict
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes
from spark_job.changelog.read_changes import read_changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.key_index.keys import U64, Mask, are_among, last_not_above
from spark_job.key_index.orders import compare_orders, exceeds
from spark_job.locate import ABSENT, Located


class NeedsHistory(Conflict):
    """The slice must be planned again, with the changelog's history at hand."""


def find_doubtful(orders: U64, located: Located, expired: tuple[int, ...] | None) -> Mask:
    """The events whose key may have had a tombstone that is newer: a late delete must not leave an older one."""
    if expired is None:
        return np.zeros(len(orders), dtype=np.bool_)
    absent: Mask = located.file == ABSENT
    return absent & ~exceeds(orders, expired)


def find_news(orders: U64, located: Located, expired: tuple[int, ...] | None) -> tuple[Located, Mask]:
    """What a replay would change. A key whose tombstone may have expired is left alone: others may have deleted it."""
    newer = np.where(find_doubtful(orders, located, expired), np.int8(0), located.newer)
    return replace(located, newer=newer), newer > 0


def settle(
    io: FileIO,
    history: Sequence[ChangeFile],
    shape: ChangelogShape,
    changes: Changes,
    orders: U64,
    located: Located,
    doubtful: Mask,
    ranks: NDArray[np.int64] | None = None,
) -> Located:
    """What was located; a doubtful event is marked as older where the changelog has a newer event of its key.

    `ranks`: which files of the history the events are from, if they are; of equals, the one of the later file counts.
    """
    places = np.flatnonzero(doubtful)
    own = np.full(len(places), len(history)) if ranks is None else ranks[places]
    keys, asked = changes.keys.take(places), orders[places]
    older = np.zeros(len(places), dtype=np.bool_)
    for ordinal, file in enumerate(history):
        events = read_changes(io, file, ordinal, shape)
        events = events.take(are_among(events.keys, keys))
        if len(events):
            at = last_not_above(keys, events.keys)
            numbers = np.full(len(events), file.sequence_number, dtype=np.uint64)
            compared = compare_orders(np.column_stack([events.sequence, numbers]), asked[at])
            older[at[(compared > 0) | ((compared == 0) & (own[at] < ordinal))]] = True
    decided = located.newer.copy()
    decided[places[older]] = -1
    return replace(located, newer=decided)
