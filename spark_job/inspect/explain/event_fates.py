"""Decides what became of each event of one key, with the rules of the merge, in the order of arrival. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from spark_job.changelog.changes import Changes
from spark_job.changelog.shape import Operation
from spark_job.index.keys import U64, Indices
from spark_job.index.orders import compare_orders
from spark_job.merge.locate import ABSENT, DEAD, LocatedKeys, decide_effects


class EventFate(StrEnum):
    """What an event did."""

    MADE_ROW = "made-row"
    DELETED_ROW = "deleted-row"
    OVERTAKEN = "overtaken"  # applied, then replaced by a newer event
    LATE = "late"  # older than the row or tombstone when it arrived
    TRUNCATED = "truncated"  # before a truncation of the source
    WAITING = "waiting"


_OUTDATED: tuple[EventFate, int | None] = (EventFate.TRUNCATED, None)


@dataclass(frozen=True, slots=True)
class EventVerdict:
    """`by`: the event that overtook it, or that was newer when it arrived; None if that event is not in the changelog.

    `will`: the fate of a waiting event if no other arrives. `repeat_of`: the first event with the same content.
    """

    fate: EventFate
    by: int | None = None
    will: EventFate | None = None
    repeat_of: int | None = None


@dataclass(frozen=True)
class KeyEvents:
    """All events of one key in the order of arrival; the first `merged` of them are merged.

    `numbers`: the changelog commit of each. `digests`: a hash of the row of each. `outdated`: events before a
    truncation of the source.
    """

    changes: Changes
    numbers: U64
    digests: Sequence[int]
    merged: int
    outdated: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def orders(self) -> U64:
        """The orders of the events: sequence and changelog commit."""
        return np.column_stack([self.changes.sequence, self.numbers])

    @property
    def counted(self) -> Indices:
        """The events that are merged and not before a truncation."""
        return np.array([at for at in range(self.merged) if at not in self.outdated], dtype=np.intp)

    def operation(self, at: int) -> Operation:
        """Return whether an event is an upsert or a delete."""
        return Operation(int(self.changes.operation[at]))


def judge_events(events: KeyEvents, indexed: tuple[int, ...] | None = None) -> list[EventVerdict]:
    """Return the verdict on each event. `indexed`: the order that the index has for the key, if any."""
    arrivals = _Arrivals(events)
    for at in events.counted.tolist():
        arrivals.arrive(at)
    made = arrivals.holder
    if indexed is not None and made is not None and is_outranked(events, made, indexed):
        arrivals.outrank(indexed)
    merged = arrivals.fates()
    for at in range(events.merged, len(events)):
        if at not in events.outdated:
            arrivals.arrive(at)
    later = arrivals.fates()
    repeats = _repeats(events)
    verdicts: list[EventVerdict] = []
    for at in range(len(events)):
        if at < events.merged:
            fate, by = merged.get(at, _OUTDATED)
            verdicts.append(EventVerdict(fate, by, None, repeats[at]))
        else:
            will, by = later.get(at, _OUTDATED)
            verdicts.append(EventVerdict(EventFate.WAITING, by, will, repeats[at]))
    return verdicts


def is_outranked(events: KeyEvents, at: int, indexed: tuple[int, ...]) -> bool:
    """Return whether the index has a greater sequence than an event.

    Commit numbers are ignored: compacting a changelog and expiring its snapshots changes those of its events.
    """
    known = np.array([indexed[:-1]], dtype=np.uint64)
    return bool(compare_orders(events.changes.sequence[at : at + 1], known)[0] < 0)


class _Arrivals:
    """Merges one event after the other, as if each were a slice."""

    def __init__(self, events: KeyEvents) -> None:
        self.holder: int | None = None
        self._events = events
        self._orders = events.orders
        self._order: U64 | None = None
        self._by: dict[int, int | None] = {}
        self._late: set[int] = set()

    def arrive(self, at: int) -> None:
        """Merge one event."""
        order, known = self._orders[at : at + 1], self._order
        newer = np.ones(1, dtype=np.int8) if known is None else compare_orders(order, known)
        file = np.array([ABSENT if known is None else DEAD], dtype=np.int32)
        located = LocatedKeys(file, np.zeros(1, dtype=np.int64), newer)
        done = decide_effects(self._events.changes.take(np.array([at])), located)
        if done.writes[0] or done.tombstones[0]:
            if self.holder is not None:
                self._by[self.holder] = at
            self.holder, self._order = at, order
        else:
            self._by[at] = self.holder
            self._late.add(at)

    def outrank(self, indexed: tuple[int, ...]) -> None:
        """Replace the holder by a change that is in the index, but not among the events."""
        if self.holder is not None:
            self._by[self.holder] = None
            self._late.add(self.holder)
        self.holder, self._order = None, np.array([indexed], dtype=np.uint64)

    def fates(self) -> dict[int, tuple[EventFate, int | None]]:
        """Return the fate of each event that arrived so far, and the event that decided it."""
        found: dict[int, tuple[EventFate, int | None]] = {
            at: (EventFate.LATE if at in self._late else EventFate.OVERTAKEN, by)
            for at, by in self._by.items()
        }
        if self.holder is not None:
            upsert = self._events.operation(self.holder) is Operation.UPSERT
            found[self.holder] = (EventFate.MADE_ROW if upsert else EventFate.DELETED_ROW, None)
        return found


def _repeats(events: KeyEvents) -> list[int | None]:
    """Return for each event the first one with the same sequence, operation and values, if it is another."""
    first: dict[tuple[object, ...], int] = {}
    found: list[int | None] = []
    for at in range(len(events)):
        operation = events.operation(at)
        digest = events.digests[at] if operation is Operation.UPSERT else 0
        original = first.setdefault((*events.changes.sequence[at].tolist(), operation, digest), at)
        found.append(None if original == at else original)
    return found
