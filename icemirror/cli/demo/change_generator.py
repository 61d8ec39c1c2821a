"""Generates the change events of one shop table: an initial copy, then flushes, determined by the seed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from icemirror.cli.demo.oracle.source_table import OPERATION_COLUMN, SEQUENCE_COLUMN, SourceTable

Ints = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]
INSERT, UPDATE, DELETE = range(3)
OPERATIONS = ("INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True)
class Events:
    """Columns of equal length, one entry per event. Key and revision determine the row's values."""

    key: Ints
    revision: Ints
    operation: Ints
    lsn: Unsigned
    ordinal: Unsigned

    def __len__(self) -> int:
        return len(self.key)

    def take(self, selection: Ints | npt.NDArray[np.bool_]) -> Events:
        """Return the events at these positions, or under this mask."""
        return Events(*(getattr(self, field.name)[selection] for field in fields(self)))

    @staticmethod
    def concat(batches: Sequence[Events]) -> Events:
        """Concatenate events."""
        batches = [Events.none(), *batches]
        columns = ([getattr(batch, field.name) for batch in batches] for field in fields(Events))
        return Events(*(np.concatenate(column) for column in columns))

    @staticmethod
    def none() -> Events:
        """Return no events."""
        ints, unsigned = np.empty(0, np.int64), np.empty(0, np.uint64)
        return Events(ints, ints, ints, unsigned, unsigned)


@dataclass(frozen=True)
class ShopTable:
    """A changelog's schema, and the function from keys and revisions to its rows."""

    subject: SourceTable
    schema: Schema
    rows: Callable[[Ints, Ints], Mapping[str, Any]]

    def to_arrow(self, events: Events) -> pa.Table:
        """Return the events as changelog rows, with the types of the changelog's files."""
        columns = dict(self.rows(events.key, events.revision))
        columns[OPERATION_COLUMN] = pa.array(OPERATIONS).take(pa.array(events.operation))
        columns[SEQUENCE_COLUMN] = pa.array(format_sequences(events.lsn, events.ordinal))
        file_schema = schema_to_pyarrow(self.schema)
        return pa.Table.from_arrays(
            [_as_type(columns[field.name], field.type) for field in file_schema], schema=file_schema
        )


def format_sequences(lsn: Unsigned, ordinal: Unsigned) -> list[str]:
    """Return `{commit_lsn:016x}/{tx_ordinal:016x}`, whose text order is the order of events."""
    if not lsn.any() and not ordinal.any():
        return [f"{0:016x}/{0:016x}"] * len(lsn)  # an initial copy
    return [
        f"{commit:016x}/{position:016x}"
        for commit, position in zip(lsn.tolist(), ordinal.tolist(), strict=True)
    ]


def scramble(*inputs: Ints | int) -> Unsigned:
    """Return uniform 64-bit numbers from integers (splitmix64), equal on every machine."""
    with np.errstate(over="ignore"):
        mixed = np.zeros(1, np.uint64)
        for values in inputs:
            mixed = mixed + np.asarray(values, np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed


def _as_type(array: Any, expected: Any) -> Any:  # noqa: ANN401  (pyarrow ships no types)
    return array if array.type == expected else array.cast(expected)


_RECENT_FLUSHES = 4
_LATEST_DELAY = 3


class ChangeGenerator:
    """Tracks live keys and generates the next flush. The n-th flush is the same in every run."""

    def __init__(self, seed: int, rows: int, flush_events: int) -> None:
        self._random = np.random.default_rng(seed)
        self._rows = rows
        self._flush_events = flush_events
        self._alive = np.ones(rows, np.bool_)
        self._revision: Ints = np.zeros(rows, np.int64)
        self._lsn = 0x16B374D848  # like that of a server that has run for a while
        self._recent: deque[Events] = deque(maxlen=_RECENT_FLUSHES)
        self._delayed: list[tuple[int, Events]] = []
        self.flushes = 0

    @property
    def live_keys(self) -> Ints:
        """The keys with a row once every event has arrived."""
        return np.flatnonzero(self._alive)

    def initial_copy(self, commits: int) -> list[Events]:
        """Return the initial rows as inserts with the sequence 0/0, divided into commits."""
        zeros = np.zeros(self._rows, np.int64)
        sequence = np.zeros(self._rows, np.uint64)
        copy = Events(np.arange(self._rows), zeros, zeros, sequence, sequence)
        return [copy.take(positions) for positions in np.array_split(np.arange(self._rows), commits)]

    def next_flush(self) -> Events:
        """Return changes in order of arrival: late ones, new ones, then duplicates."""
        changes, delayed = self._new_changes()
        late = [events for due, events in self._delayed if due <= self.flushes]
        self._delayed = [(due, events) for due, events in self._delayed if due > self.flushes]
        duplicates = self._duplicates()
        self._recent.append(changes)
        if len(delayed):
            delay = int(self._random.integers(1, _LATEST_DELAY + 1))
            self._delayed.append((self.flushes + delay, delayed))
        self.flushes += 1
        return Events.concat([*late, changes, duplicates])

    def _new_changes(self) -> tuple[Events, Events]:
        """Return this flush's changes, and older ones of keys that change twice, delayed to arrive late."""
        size = self._flush_events
        updated = self._pick_alive(size * 50 // 100)
        inserted = np.arange(len(self._alive), len(self._alive) + size * 20 // 100)
        deleted_earlier = np.flatnonzero(~self._alive)
        reinserted = self._pick(deleted_earlier, size * 4 // 100)
        first = [
            self._apply(updated, UPDATE),
            self._apply(inserted, INSERT),
            self._apply(reinserted, INSERT),
        ]
        deleted = np.union1d(self._pick(updated, size * 4 // 100), self._pick_alive(size * 8 // 100))
        updated_twice = np.setdiff1d(self._pick(updated, size * 8 // 100), deleted)
        second = [self._apply(deleted, DELETE), self._apply(updated_twice, UPDATE)]
        third = [self._apply(self._pick(deleted, size * 4 // 100), INSERT)]

        changes = self._with_sequences(Events.concat([*first, *second, *third]))
        replaced = np.isin(changes.key, np.concatenate([deleted, updated_twice]))
        replaced[len(updated) :] = False
        late = self._pick(np.flatnonzero(replaced), max(1, size // 100))
        on_time = np.ones(len(changes), np.bool_)
        on_time[late] = False
        return changes.take(on_time), changes.take(late)

    def _apply(self, keys: Ints, operation: int) -> Events:
        """Return events of one operation on distinct keys; a DELETE contains the row that it removes."""
        if len(keys) and keys.max() >= len(self._alive):
            new_keys = int(keys.max()) + 1 - len(self._alive)
            self._alive = np.append(self._alive, np.zeros(new_keys, np.bool_))
            self._revision = np.append(self._revision, np.zeros(new_keys, np.int64))
        if operation != DELETE:
            self._revision[keys] += 1
        self._alive[keys] = operation != DELETE
        unset = np.zeros(len(keys), np.uint64)
        return Events(keys, self._revision[keys], np.full(len(keys), operation), unset, unset)

    def _with_sequences(self, changes: Events) -> Events:
        """Group the changes into transactions of a few events: one commit LSN each, ordinals from 0."""
        starts_transaction: npt.NDArray[np.bool_] = self._random.integers(0, 8, len(changes)) == 0
        if len(starts_transaction):
            starts_transaction[0] = True
        transaction = np.cumsum(starts_transaction)
        starts = np.flatnonzero(starts_transaction)
        ordinal = (np.arange(len(changes)) - starts[transaction - 1]).astype(np.uint64)
        lsn = (self._lsn + 8 * transaction).astype(np.uint64)
        self._lsn = int(lsn[-1]) if len(lsn) else self._lsn
        return Events(changes.key, changes.revision, changes.operation, lsn, ordinal)

    def _duplicates(self) -> Events:
        """Return events that were delivered before, with the same sequence."""
        recent = Events.concat(list(self._recent))
        return recent.take(self._pick(np.arange(len(recent)), self._flush_events * 2 // 100))

    def _pick_alive(self, count: int) -> Ints:
        """Pick live keys; half of them among the newest tenth."""
        alive = self.live_keys
        newest = alive[-max(1, len(alive) // 10) :]
        return np.union1d(self._pick(alive, count // 2), self._pick(newest, count - count // 2))

    def _pick(self, keys: Ints, count: int) -> Ints:
        picked: Ints = self._random.choice(keys, min(count, len(keys)), replace=False, shuffle=False)
        return picked
