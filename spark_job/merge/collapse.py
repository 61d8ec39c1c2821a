"""Collapse: reduce the events of each key to one change, the greatest event.

The total order of events is (sequence, changelog snapshot, file, position).
"""

from __future__ import annotations

import numpy as np

from spark_job.changelog.event_batch import EventBatch
from spark_job.columns.arrays import Indices
from spark_job.index.orders import is_sorted


def collapse_changes(events: EventBatch) -> EventBatch:
    """Return the greatest event of each key, ascending by key. Events must be sorted by (file, row)."""
    if not len(events):
        return events
    order = argsort_events(events)
    is_last_of_key = np.append(~events.keys.take(order).same_as_next(), True)
    return events.take(order[is_last_of_key])


def argsort_events(events: EventBatch) -> Indices:
    """Return the indices that sort events by key and sequence, stably. Events must be sorted by (file, row)."""
    if is_sorted(events.sequence):
        return events.keys.argsort()
    # The last column is the primary one of `lexsort`.
    sequence_parts = [events.sequence[:, part] for part in reversed(range(events.sequence.shape[1]))]
    key_parts = [events.keys.lo] if events.keys.hi is None else [events.keys.lo, events.keys.hi]
    return np.lexsort([*sequence_parts, *key_parts])
