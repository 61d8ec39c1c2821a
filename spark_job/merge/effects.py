"""Decides the effect of each change: whether it writes a row, writes a tombstone, removes a row, or is stale."""

from __future__ import annotations

from dataclasses import dataclass

from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.shape import Operation
from spark_job.columns.arrays import Mask
from spark_job.merge.locate import LocatedKeys


@dataclass(frozen=True, slots=True)
class EventEffects:
    """Masks over the changes: which write a row, write a tombstone, remove a row; and counts of all effects."""

    writes: Mask
    tombstones: Mask
    removes: Mask
    inserted: int
    updated: int
    deleted: int
    stale: int
    unchanged: int


def decide_effects(changes: EventBatch, located: LocatedKeys, *, is_replay: bool = False) -> EventEffects:
    """Return the effect of each change.

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
