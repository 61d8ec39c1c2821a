"""Computes the outcome of each event of one key by the merge's rules. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from spark_job.changelog.changes import Changes
from spark_job.changelog.shape import Operation
from spark_job.index.keys import U64, Indices
from spark_job.index.orders import compare_orders
from spark_job.index.segment import TOMBSTONE
from spark_job.merge.locate import ABSENT, LocatedKeys, decide_effects


class EventOutcome(StrEnum):
    """What an event did."""

    WROTE_ROW = "made-row"
    DELETED_ROW = "deleted-row"
    OVERTAKEN = "overtaken"  # applied, then replaced by a newer event
    LATE = "late"  # older than the row or tombstone when it arrived
    TRUNCATED = "truncated"  # before a truncation of the source
    WAITING = "waiting"


_OUTDATED: tuple[EventOutcome, int | None] = (EventOutcome.TRUNCATED, None)


@dataclass(frozen=True, slots=True)
class EventExplanation:
    """What an event did, and why.

    `replaced_by`: the event that replaced it, or that was newer when it arrived; None if it is not in the changelog.
    `expected_outcome`: that of a waiting event if no other arrives. `repeat_of`: the first event with the same content.
    """

    outcome: EventOutcome
    replaced_by: int | None = None
    expected_outcome: EventOutcome | None = None
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
    def mergeable(self) -> Indices:
        """The events that are merged and not before a truncation."""
        return np.array([at for at in range(self.merged) if at not in self.outdated], dtype=np.intp)

    def operation(self, at: int) -> Operation:
        """Return whether an event is an upsert or a delete."""
        return Operation(int(self.changes.operation[at]))


def explain_events(events: KeyEvents, indexed: tuple[int, ...] | None = None) -> list[EventExplanation]:
    """Return the explanation of each event. `indexed`: the order that the index has for the key, if any."""
    arrivals = _OneByOneMerge(events)
    for at in events.mergeable.tolist():
        arrivals.arrive(at)
    made = arrivals.winner
    if indexed is not None and made is not None and is_outranked(events, made, indexed):
        arrivals.replace_winner(indexed)
    merged = arrivals.outcomes()
    for at in range(events.merged, len(events)):
        if at not in events.outdated:
            arrivals.arrive(at)
    later = arrivals.outcomes()
    repeats = _repeats(events)
    explanations: list[EventExplanation] = []
    for at in range(len(events)):
        if at < events.merged:
            outcome, replaced_by = merged.get(at, _OUTDATED)
            explanations.append(EventExplanation(outcome, replaced_by, None, repeats[at]))
        else:
            expected_outcome, replaced_by = later.get(at, _OUTDATED)
            explanations.append(
                EventExplanation(EventOutcome.WAITING, replaced_by, expected_outcome, repeats[at])
            )
    return explanations


def is_outranked(events: KeyEvents, at: int, indexed: tuple[int, ...]) -> bool:
    """Return whether the index has a greater sequence than an event.

    Commit numbers are ignored: compacting a changelog and expiring its snapshots changes those of its events.
    """
    known = np.array([indexed[:-1]], dtype=np.uint64)
    return bool(compare_orders(events.changes.sequence[at : at + 1], known)[0] < 0)


class _OneByOneMerge:
    """Merges one event after the other, as if each were a slice."""

    def __init__(self, events: KeyEvents) -> None:
        self.winner: int | None = None
        self._events = events
        self._orders = events.orders
        self._order: U64 | None = None
        self._by: dict[int, int | None] = {}
        self._late: set[int] = set()

    def arrive(self, at: int) -> None:
        """Merge one event."""
        order, known = self._orders[at : at + 1], self._order
        newer = np.ones(1, dtype=np.int8) if known is None else compare_orders(order, known)
        file = np.array([ABSENT if known is None else TOMBSTONE], dtype=np.int32)
        located = LocatedKeys(file, np.zeros(1, dtype=np.int64), newer)
        done = decide_effects(self._events.changes.take(np.array([at])), located)
        if done.writes[0] or done.tombstones[0]:
            if self.winner is not None:
                self._by[self.winner] = at
            self.winner, self._order = at, order
        else:
            self._by[at] = self.winner
            self._late.add(at)

    def replace_winner(self, indexed: tuple[int, ...]) -> None:
        """Replace the winner by a change that is in the index, but not among the events."""
        if self.winner is not None:
            self._by[self.winner] = None
            self._late.add(self.winner)
        self.winner, self._order = None, np.array([indexed], dtype=np.uint64)

    def outcomes(self) -> dict[int, tuple[EventOutcome, int | None]]:
        """Return the outcome of each event that arrived so far, and the event that decided it."""
        found: dict[int, tuple[EventOutcome, int | None]] = {
            at: (EventOutcome.LATE if at in self._late else EventOutcome.OVERTAKEN, replaced_by)
            for at, replaced_by in self._by.items()
        }
        if self.winner is not None:
            upsert = self._events.operation(self.winner) is Operation.UPSERT
            found[self.winner] = (EventOutcome.WROTE_ROW if upsert else EventOutcome.DELETED_ROW, None)
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
