"""Computes the outcome of each event of one key by the merge's rules. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.shape import Operation
from spark_job.columns.arrays import U64, Indices
from spark_job.index.orders import compare_orders
from spark_job.index.segment import TOMBSTONE
from spark_job.merge.effects import decide_effects
from spark_job.merge.locate import ABSENT, LocatedKeys


class EventOutcome(StrEnum):
    """What an event did."""

    WROTE_ROW = "made-row"
    DELETED_ROW = "deleted-row"
    OVERTAKEN = "overtaken"  # applied, then replaced by a newer event
    LATE = "late"  # older than the row or tombstone when it arrived
    TRUNCATED = "truncated"  # before a truncation of the source
    WAITING = "waiting"


_TRUNCATED: tuple[EventOutcome, int | None] = (EventOutcome.TRUNCATED, None)


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
    """All events of one key in the order of arrival, merged ones first. An event is its index here.

    `commits`: the changelog commit of each. `digests`: a hash of the row of each. `merged_count`: how many are merged.
    `truncated`: events before a truncation of the source.
    """

    batch: EventBatch
    commits: U64
    digests: Sequence[int]
    merged_count: int
    truncated: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def orders(self) -> U64:
        """The orders of the events: sequence and changelog commit."""
        return np.column_stack([self.batch.sequence, self.commits])

    @property
    def effective(self) -> Indices:
        """The merged events that are not before a truncation."""
        return np.array(
            [event for event in range(self.merged_count) if event not in self.truncated], dtype=np.intp
        )

    def operation(self, event: int) -> Operation:
        """Return whether an event is an upsert or a delete."""
        return Operation(int(self.batch.operation[event]))


def explain_events(events: KeyEvents, index_order: tuple[int, ...] | None = None) -> list[EventExplanation]:
    """Return the explanation of each event. `index_order`: the order of the key in the index, if any."""
    merge = _SequentialMerge(events)
    for event in events.effective.tolist():
        merge.apply(event)
    winner = merge.winner
    if index_order is not None and winner is not None and is_older_than_index(events, winner, index_order):
        merge.replace_winner(index_order)
    merged_outcomes = merge.outcomes()
    for event in range(events.merged_count, len(events)):
        if event not in events.truncated:
            merge.apply(event)
    expected_outcomes = merge.outcomes()
    repeats = _find_repeats(events)
    explanations: list[EventExplanation] = []
    for event in range(len(events)):
        if event < events.merged_count:
            outcome, replaced_by = merged_outcomes.get(event, _TRUNCATED)
            explanations.append(EventExplanation(outcome, replaced_by, None, repeats[event]))
        else:
            expected_outcome, replaced_by = expected_outcomes.get(event, _TRUNCATED)
            explanations.append(
                EventExplanation(EventOutcome.WAITING, replaced_by, expected_outcome, repeats[event])
            )
    return explanations


def is_older_than_index(events: KeyEvents, event: int, index_order: tuple[int, ...]) -> bool:
    """Return whether an event has a lower sequence than the index.

    Commit numbers are ignored: compacting a changelog and expiring its snapshots changes those of its events.
    """
    index_sequence = np.array([index_order[:-1]], dtype=np.uint64)
    return bool(compare_orders(events.batch.sequence[event : event + 1], index_sequence)[0] < 0)


class _SequentialMerge:
    """Merges one event after the other, as if each were a slice."""

    def __init__(self, events: KeyEvents) -> None:
        self.winner: int | None = None
        self._events = events
        self._orders = events.orders
        self._winner_order: U64 | None = None
        self._replaced_by: dict[int, int | None] = {}
        self._late: set[int] = set()

    def apply(self, event: int) -> None:
        """Merge one event: it becomes the winner, or is late."""
        order, winner_order = self._orders[event : event + 1], self._winner_order
        newer = np.ones(1, dtype=np.int8) if winner_order is None else compare_orders(order, winner_order)
        file = np.array([ABSENT if winner_order is None else TOMBSTONE], dtype=np.int32)
        located = LocatedKeys(file, np.zeros(1, dtype=np.int64), newer)
        effects = decide_effects(self._events.batch.take(np.array([event])), located)
        if effects.writes[0] or effects.tombstones[0]:
            if self.winner is not None:
                self._replaced_by[self.winner] = event
            self.winner, self._winner_order = event, order
        else:
            self._replaced_by[event] = self.winner
            self._late.add(event)

    def replace_winner(self, index_order: tuple[int, ...]) -> None:
        """Replace the winner by a change that is in the index, but not among the events."""
        if self.winner is not None:
            self._replaced_by[self.winner] = None
            self._late.add(self.winner)
        self.winner, self._winner_order = None, np.array([index_order], dtype=np.uint64)

    def outcomes(self) -> dict[int, tuple[EventOutcome, int | None]]:
        """Return the outcome of each event that arrived so far, and the event that decided it."""
        outcomes: dict[int, tuple[EventOutcome, int | None]] = {
            event: (EventOutcome.LATE if event in self._late else EventOutcome.OVERTAKEN, replaced_by)
            for event, replaced_by in self._replaced_by.items()
        }
        if self.winner is not None:
            is_upsert = self._events.operation(self.winner) is Operation.UPSERT
            outcomes[self.winner] = (EventOutcome.WROTE_ROW if is_upsert else EventOutcome.DELETED_ROW, None)
        return outcomes


def _find_repeats(events: KeyEvents) -> list[int | None]:
    """Return for each event the first one with the same sequence, operation and values, if it is another."""
    first_by_content: dict[tuple[object, ...], int] = {}
    repeats: list[int | None] = []
    for event in range(len(events)):
        operation = events.operation(event)
        digest = events.digests[event] if operation is Operation.UPSERT else 0
        original = first_by_content.setdefault(
            (*events.batch.sequence[event].tolist(), operation, digest), event
        )
        repeats.append(None if original == event else original)
    return repeats
