"""The events of a changelog, and the rows that the mirror must have."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from tests.sim.engine.setting import Key
from tests.sim.mutation.kinds import VALUES, Kind

Row = tuple[Any, ...]
Order = tuple[int, int]  # sequence, the changelog's commit

_OPERATIONS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}
_EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Event:
    """One row of the changelog."""

    key: Key
    operation: str
    sequence: int
    row: Row


@dataclass
class Oracle:
    """The greatest event of each key, and its row if it is not a delete."""

    orders: dict[Key, Order] = field(default_factory=dict)
    rows: dict[Key, Row] = field(default_factory=dict)

    def copy(self) -> Oracle:
        return Oracle(dict(self.orders), dict(self.rows))

    def merge(self, commit: int, files: Iterable[Sequence[Event]]) -> None:
        """Apply a commit of the changelog: an event older than the row is stale."""
        for event in (event for file in files for event in file):
            order = event.sequence, commit
            if order < self.orders.get(event.key, (-1, -1)):
                continue
            self.orders[event.key] = order
            if event.operation == "D":
                self.rows.pop(event.key, None)
            else:
                self.rows[event.key] = event.row

    def write_foreign(self, inserted: dict[Key, Row], deleted: Iterable[Key]) -> None:
        """Apply a foreign write: its rows get the newest order so far, deleted rows keep theirs."""
        newest = max(self.orders.values())
        for key in deleted:
            del self.rows[key]
        for key, row in inserted.items():
            self.orders[key], self.rows[key] = newest, row


def make_row(number: int, dice: random.Random) -> Row:
    """Return values that differ between all revisions."""
    return (
        number,
        None if number % 9 == 4 else f"{dice.choice('pqr')}{number}",
        _EPOCH + timedelta(seconds=number, microseconds=number % 997),
        None if number % 7 == 3 else Decimal(number * 1001).scaleb(-3),
    )


def as_events(kind: Kind, events: Sequence[Event]) -> pa.Table:
    """Return events as a file of the changelog."""
    columns: dict[str, list[Any]] = {
        name: [event.key[at] for event in events] for at, name in enumerate(kind.setting.key_names)
    }
    columns |= {name: [event.row[at] for event in events] for at, (name, _) in enumerate(VALUES)}
    columns["cdc_operation"] = [_OPERATIONS[event.operation] for event in events]
    columns["sequence_number"] = [f"{event.sequence:016x}/{0:016x}" for event in events]
    return pa.table(columns, schema=schema_to_pyarrow(kind.setting.schema))


@dataclass
class EventGenerator:
    """Generates events with rising sequences, except for late events."""

    kind: Kind
    dice: random.Random
    keys: int = 0
    sequence: int = 1000
    revision: int = 0

    def insert(self, count: int) -> list[Event]:
        """Generate inserts of new keys."""
        self.keys += count
        return [self.event("I", number) for number in range(self.keys - count, self.keys)]

    def change(self, numbers: Iterable[int], *, late: int = 0) -> list[Event]:
        """Generate updates and some deletes; `late`: how much older their sequences are."""
        return [self.event("D" if self.dice.random() < 0.25 else "U", number, late) for number in numbers]

    def event(self, operation: str, number: int, late: int = 0) -> Event:
        self.sequence += 1
        self.revision += 1
        row = make_row(self.revision, self.dice)
        return Event(self.kind.key_of(number), operation, max(1, self.sequence - late), row)
