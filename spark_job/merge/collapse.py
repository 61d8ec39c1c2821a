"""Collapse: keep only the greatest event of each key.

The total order of events is (sequence, changelog snapshot, file, position).
"""

from __future__ import annotations

import numpy as np

from spark_job.changelog.changes import Changes
from spark_job.index.keys import Indices
from spark_job.index.orders import is_sorted


def collapse_changes(changes: Changes) -> Changes:
    """Return the greatest event of each key, ascending by key. Events must be sorted by (file, row)."""
    if not len(changes):
        return changes
    order = order_of_events(changes)
    last = np.append(~changes.keys.take(order).same_as_next(), True)
    return changes.take(order[last])


def order_of_events(changes: Changes) -> Indices:
    """Return the indices that sort events by key and sequence, stably. Events must be sorted by (file, row)."""
    if is_sorted(changes.sequence):
        return changes.keys.argsort()
    parts = [changes.sequence[:, part] for part in reversed(range(changes.sequence.shape[1]))]
    key_parts = [changes.keys.lo] if changes.keys.hi is None else [changes.keys.lo, changes.keys.hi]
    return np.lexsort([*parts, *key_parts])
