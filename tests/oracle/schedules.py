"""Adversarial changelogs from a seed: ties, late events, duplicates, and changes that contradict the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import LongType

from icemirror.cli.demo.change_generator import (
    DELETE,
    INSERT,
    UPDATE,
    Events,
    Ints,
    ShopTable,
    Unsigned,
    scramble,
)
from icemirror.cli.demo.oracle.source_table import SourceTable
from icemirror.cli.demo.shop import changelog_schema
from tests.oracle.key_pools import KEY_KINDS, make_key_pool
from tests.oracle.value_pools import MISREAD_BY_PYICEBERG, VALUE_COLUMNS

# An event with this revision contains only its key, like deletes of older writers.
NO_VALUES = -1
REVISION_COLUMN = "revision"
_OPERATIONS = np.array([INSERT, UPDATE, DELETE])
_CLOCKS = (1, 2**32 - 3, 2**63 - 40, 2**64 - 2**20)


@dataclass(frozen=True)
class Schedule:
    """An endless stream of changes. Equal schedules produce the same changes."""

    seed: int
    key: str = "int"
    columns: Sequence[str] = tuple(name for name in VALUE_COLUMNS if name not in MISREAD_BY_PYICEBERG)
    distinct_keys: int = 60
    largest_commit: int = 80
    most_files: int = 3

    @property
    def shape(self) -> ShopTable:
        """The changelog's schema and rows: the key, the event's number, and the value columns."""
        key = KEY_KINDS[self.key].columns
        values = [(name, VALUE_COLUMNS[name][0]) for name in self.columns]
        schema = changelog_schema([*key, (REVISION_COLUMN, LongType()), *values], [name for name, _ in key])
        pool = make_key_pool(self.key, self.distinct_keys, np.random.default_rng([self.seed, 1]))
        types = schema_to_pyarrow(schema)
        value_pools = {
            name: pa.array([*VALUE_COLUMNS[name][1], None], types.field(name).type) for name in self.columns
        }

        def rows(keys: Ints, revisions: Ints) -> Mapping[str, Any]:
            columns = {name: pool.column(name).take(pa.array(keys)).combine_chunks() for name, _ in key}
            bare = revisions == NO_VALUES
            columns[REVISION_COLUMN] = pa.array(revisions, mask=bare)
            for number, (name, choices) in enumerate(value_pools.items()):
                absent = len(choices) - 1
                chosen = (scramble(revisions, number) % np.uint64(absent)).astype(np.int64)
                columns[name] = choices.take(pa.array(np.where(bare, absent, chosen)))
            return columns

        return ShopTable(SourceTable.of(f"world_{self.key}", schema), schema, rows)

    def commits(self) -> Iterator[list[Events]]:
        """Yield the files of each commit; a commit may have none."""
        yield from _EventGenerator(self).commits()


class _EventGenerator:
    """Generates events without regard to the rows: it also inserts existing keys and updates absent ones."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._random = np.random.default_rng([schedule.seed, 2])
        pool = make_key_pool(schedule.key, schedule.distinct_keys, np.random.default_rng([schedule.seed, 1]))
        self._keys = pool.num_rows
        self._clock = int(self._random.choice(np.array(_CLOCKS, np.uint64)))
        self._bare_deletes = bool(self._random.integers(2))
        self._revision = 0
        self._history = Events.none()

    def commits(self) -> Iterator[list[Events]]:
        if self._random.random() < 0.7:
            copy = self._initial_copy()
            yield from ([part] for part in self._split(copy, int(self._random.integers(1, 3))))
        last: list[Events] = []
        while True:
            chance = self._random.random()
            if chance < 0.03:
                yield []
                continue
            if chance < 0.08 and last:
                yield last  # the writer died after its commit and repeats the whole batch
                continue
            events = self._some_events()
            last = self._split(events, int(self._random.integers(1, self._schedule.most_files + 1)))
            yield last

    def _initial_copy(self) -> Events:
        keys = self._random.permutation(self._keys)[: int(self._random.integers(1, self._keys + 1))]
        zeros = np.zeros(len(keys), np.uint64)
        copy = Events(keys, self._number(len(keys)), np.full(len(keys), INSERT), zeros, zeros)
        self._history = Events.concat([self._history, copy])
        return copy

    def _some_events(self) -> Events:
        random = self._random
        size = max(1, int(np.exp(random.uniform(0, np.log(self._schedule.largest_commit)))))
        # Few keys are hot: most commits change one of them twice.
        key = (random.random(size) ** 2 * self._keys).astype(np.int64)
        operation = random.choice(_OPERATIONS, size, p=[0.35, 0.4, 0.25])
        # A clock that does not advance produces ties: equal sequences, ordered only by commit, file and position.
        ticks = np.uint64(self._clock) + np.cumsum(self._up_to(1, size))
        self._clock = int(ticks[-1]) + int(random.integers(0, 3))
        backwards = np.where(random.random(size) < 0.15, self._up_to(40 + 4 * size, size), np.uint64(0))
        ahead = np.where(random.random(size) < 0.01, self._up_to(60, size), np.uint64(0))
        lsn = ticks - np.minimum(backwards, ticks - np.uint64(1)) + ahead
        self._delete_then_insert(key, operation, lsn)
        revision = self._number(size)
        if self._bare_deletes:
            revision[operation == DELETE] = NO_VALUES
        new = Events(key, revision, operation, lsn, self._up_to(2, size))
        self._history = Events.concat([self._history, new])
        return self._with_duplicates(new)

    def _delete_then_insert(self, key: Ints, operation: Ints, lsn: Unsigned) -> None:
        if len(key) < 2:
            return
        for at in self._random.integers(0, len(key) - 1, max(1, len(key) // 20)).tolist():
            key[at + 1] = key[at]
            operation[at : at + 2] = DELETE, INSERT
            lsn[at + 1] = lsn[at] + np.uint64(1)

    def _with_duplicates(self, new: Events) -> Events:
        """Insert duplicates of events of any age among the new ones."""
        count = int(self._random.integers(0, 1 + max(1, len(new) // 8)))
        old = self._history.take(self._random.integers(0, len(self._history), count))
        both = Events.concat([new, old])
        positions = np.concatenate([np.arange(len(new)), self._random.integers(0, len(new), count)])
        return both.take(np.argsort(positions, kind="stable"))

    def _up_to(self, largest: int, count: int) -> Unsigned:
        return self._random.integers(0, largest, count, dtype=np.uint64, endpoint=True)

    def _number(self, count: int) -> Ints:
        first, self._revision = self._revision, self._revision + count
        return np.arange(first, first + count)

    def _split(self, events: Events, most: int) -> list[Events]:
        bounds = np.sort(self._random.integers(0, len(events) + 1, most - 1))
        parts = [events.take(part) for part in np.split(np.arange(len(events)), bounds)]
        return [part for part in parts if len(part)]
