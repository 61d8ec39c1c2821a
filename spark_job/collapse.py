"""Collapse: of all events of a key, only the greatest in the total order counts.

The order is (sequence, changelog snapshot, file, position).
"""

from __future__ import annotations

import numpy as np

from spark_job.changelog.changes import Changes
from spark_job.key_index.keys import Indices
from spark_job.key_index.orders import is_sorted


def collapse_changes(changes: Changes) -> Changes:
    """The greatest event of each key, ascending by key. Events must stand in the order (file, row)."""
    if not len(changes):
        return changes
    order = order_of_events(changes)
    last = np.append(~changes.keys.take(order).same_as_next(), True)
    return changes.take(order[last])


def order_of_events(changes: Changes) -> Indices:
    """The places of the events by key and sequence. Events must stand in the order (file, row): equals stay so."""
    if is_sorted(changes.sequence):
        return changes.keys.argsort()
    parts = [changes.sequence[:, part] for part in reversed(range(changes.sequence.shape[1]))]
    key_parts = [changes.keys.lo] if changes.keys.hi is None else [changes.keys.lo, changes.keys.hi]
    return np.lexsort([*parts, *key_parts])
