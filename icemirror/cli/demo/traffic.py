"""What happens to one table of the shop: an initial copy, then flushes of changes, settled by the seed."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from icemirror.cli.demo.events import DELETE, INSERT, UPDATE, Events, Ints

_RECENT_FLUSHES = 4
_LATEST_DELAY = 3


class Traffic:
    """Knows which keys are alive and what comes next. The n-th flush is the same in every run."""

    def __init__(self, seed: int, rows: int, flush_events: int) -> None:
        self._random = np.random.default_rng(seed)
        self._rows = rows
        self._flush_events = flush_events
        self._alive = np.ones(rows, np.bool_)
        self._revision: Ints = np.zeros(rows, np.int64)
        self._lsn = 0x16B374D848  # as if the server had run for a while
        self._recent: deque[Events] = deque(maxlen=_RECENT_FLUSHES)
        self._held: list[tuple[int, Events]] = []
        self.flushes = 0

    @property
    def live_keys(self) -> Ints:
        """The keys whose rows are there once every event has arrived."""
        return np.flatnonzero(self._alive)

    def initial_copy(self, parts: int) -> list[Events]:
        """The rows that were there before: inserts, all with the sequence 0/0."""
        zeros = np.zeros(self._rows, np.int64)
        sequence = np.zeros(self._rows, np.uint64)
        copy = Events(np.arange(self._rows), zeros, zeros, sequence, sequence)
        return [copy.take(part) for part in np.array_split(np.arange(self._rows), parts)]

    def next_flush(self) -> Events:
        """Changes in the order in which they arrive: late ones first, then new ones, then repetitions."""
        new, held_back = self._new_changes()
        late = [events for due, events in self._held if due <= self.flushes]
        self._held = [(due, events) for due, events in self._held if due > self.flushes]
        repeated = self._repetitions()
        self._recent.append(new)
        if len(held_back):
            delay = int(self._random.integers(1, _LATEST_DELAY + 1))
            self._held.append((self.flushes + delay, held_back))
        self.flushes += 1
        return Events.concat([*late, new, repeated])

    def _new_changes(self) -> tuple[Events, Events]:
        """This flush's changes, and some older ones of keys that change twice, held back to arrive late."""
        size = self._flush_events
        updated = self._pick_alive(size * 50 // 100)
        inserted = np.arange(len(self._alive), len(self._alive) + size * 20 // 100)
        gone_before = np.flatnonzero(~self._alive)
        returned = self._pick(gone_before, size * 4 // 100)
        first = [
            self._apply(updated, UPDATE),
            self._apply(inserted, INSERT),
            self._apply(returned, INSERT),
        ]
        deleted = np.union1d(self._pick(updated, size * 4 // 100), self._pick_alive(size * 8 // 100))
        again = np.setdiff1d(self._pick(updated, size * 8 // 100), deleted)
        second = [self._apply(deleted, DELETE), self._apply(again, UPDATE)]
        third = [self._apply(self._pick(deleted, size * 4 // 100), INSERT)]

        changes = self._with_sequences(Events.concat([*first, *second, *third]))
        overtaken = np.isin(changes.key, np.concatenate([deleted, again]))
        overtaken[len(updated) :] = False
        late = self._pick(np.flatnonzero(overtaken), max(1, size // 100))
        on_time = np.ones(len(changes), np.bool_)
        on_time[late] = False
        return changes.take(on_time), changes.take(late)

    def _apply(self, keys: Ints, operation: int) -> Events:
        """The events of one operation on different keys; a DELETE shows the row that it removes."""
        if len(keys) and keys.max() >= len(self._alive):
            grown = int(keys.max()) + 1 - len(self._alive)
            self._alive = np.append(self._alive, np.zeros(grown, np.bool_))
            self._revision = np.append(self._revision, np.zeros(grown, np.int64))
        if operation != DELETE:
            self._revision[keys] += 1
        self._alive[keys] = operation != DELETE
        unset = np.zeros(len(keys), np.uint64)
        return Events(keys, self._revision[keys], np.full(len(keys), operation), unset, unset)

    def _with_sequences(self, changes: Events) -> Events:
        """Cuts the changes into transactions of a few events: one commit LSN each, ordinals from 0."""
        begins: npt.NDArray[np.bool_] = self._random.integers(0, 8, len(changes)) == 0
        if len(begins):
            begins[0] = True
        transaction = np.cumsum(begins)
        starts = np.flatnonzero(begins)
        ordinal = (np.arange(len(changes)) - starts[transaction - 1]).astype(np.uint64)
        lsn = (self._lsn + 8 * transaction).astype(np.uint64)
        self._lsn = int(lsn[-1]) if len(lsn) else self._lsn
        return Events(changes.key, changes.revision, changes.operation, lsn, ordinal)

    def _repetitions(self) -> Events:
        """Events that were delivered before, delivered again with the sequence they had."""
        before = Events.concat(list(self._recent))
        return before.take(self._pick(np.arange(len(before)), self._flush_events * 2 // 100))

    def _pick_alive(self, count: int) -> Ints:
        """Living keys; half of them among the newest tenth, as in life."""
        alive = self.live_keys
        newest = alive[-max(1, len(alive) // 10) :]
        return np.union1d(self._pick(alive, count // 2), self._pick(newest, count - count // 2))

    def _pick(self, keys: Ints, count: int) -> Ints:
        picked: Ints = self._random.choice(keys, min(count, len(keys)), replace=False, shuffle=False)
        return picked
