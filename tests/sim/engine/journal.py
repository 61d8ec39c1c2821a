"""The changelog as its writer recorded it: every event of every file of every commit, outside Iceberg."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from icemirror.tables.cursor import CursorSource
from spark_job.pyiceberg_private.v3_fields import delete_key
from tests.sim.engine import snapshots
from tests.sim.engine.setting import SAME, Key, Setting, arrow_schema

Order = tuple[int, int, int]  # the two parts of the sequence, and the changelog's commit
EventPosition = tuple[int, int, int, int, int]  # the order, the file in the commit, and the row
# v, c, x as text (NaN equals NaN), and with soft deletes the deleted flag
Row = tuple[int, str | None, str, bool | None]

_OPERATIONS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "T": "TRUNCATE"}
_BAD_OPERATIONS = {"null-operation": None, "unknown-operation": "UPSERT"}
_CATEGORIES = ("p", "q", None)
_NUMBERS = (0.0, -0.0, float("nan"), None)


def row_of(v: int, c: str | None, x: float | None, flag: bool | None = None) -> Row:
    """Return the values of a row in an exactly comparable form."""
    return v, c, repr(x), flag


@dataclass(frozen=True)
class Event:
    """One row of the changelog."""

    key: Key
    operation: str
    lsn: int
    ordinal: int
    v: int
    c: str | None
    x: float | None
    old: Key | None = None  # the old key, if the event changes it
    bad: str = ""  # why it cannot be merged

    @property
    def moves(self) -> bool:
        """Whether the event changes the key of its row."""
        return self.old is not None and self.operation != "D" and self.old != self.key

    @property
    def truncates(self) -> bool:
        """Whether the event is a truncation, which has no key."""
        return self.operation == "T"

    @property
    def row(self) -> Row | None:
        """The row that the mirror should have if this event wins."""
        return None if self.operation == "D" else row_of(self.v, self.c, self.x)


@dataclass(frozen=True)
class File:
    """The events of one file, and the number of its commit."""

    commit: int
    number: int
    events: tuple[Event, ...]
    path: str = ""

    @property
    def good(self) -> Iterator[tuple[EventPosition, Event]]:
        """The events that can be merged, with their positions in the order of events."""
        for row, event in enumerate(self.events):
            if not event.bad:
                yield (event.lsn, event.ordinal, self.commit, self.number, row), event

    @property
    def truncation(self) -> EventPosition | None:
        """The last truncation."""
        return max((position for position, event in self.good if event.truncates), default=None)


@dataclass
class Journal:
    """Files in the order of events."""

    files: list[File] = field(default_factory=list)
    clock: int = 1000
    revision: int = 0
    snapshot_ids: dict[int, int] = field(default_factory=dict)  # commit number → snapshot
    rewritten: bool = False  # the changelog no longer has all orders
    compacted: list[File] = field(default_factory=list)  # files that contain the same events again
    deleted: dict[Key, tuple[int, int]] = field(default_factory=dict)  # the newest delete of each key

    def merged(self, source: CursorSource) -> int:
        """Return how many files are merged up to a cursor."""
        if source.files_done is None:
            return sum(file.commit <= source.sequence_number for file in self.files)
        before = sum(file.commit < source.sequence_number for file in self.files)
        return before + source.files_done

    def append(self, table: Table, setting: Setting, dice: random.Random) -> str:
        """Commit a few files: inserts, updates, deletes, ties, late events, duplicates, key reuse."""
        number = table.metadata.next_sequence_number()
        files = [self._events(setting, dice) for _ in range(dice.randint(1, setting.most_files))]
        if len(files) > 1 and dice.random() < 0.5:
            self._tie(files, dice)
        if self.files and dice.random() < 0.1:
            files = [list(dice.choice(self.files).events)]
        if dice.random() < 0.04:
            files = []
        if setting.orderly:
            files = [[self._make_orderly(event) for event in file] for file in files]
        data = [snapshots.write_parquet(table, as_arrow(setting, events), Record()) for events in files]
        snapshot = snapshots.commit(table, "append", data)
        self.snapshot_ids[number] = snapshot.snapshot_id
        for at, (events, written) in enumerate(zip(files, data, strict=True)):
            self.files.append(File(number, at, tuple(events), written.file_path))
        names = [
            [f"{event.operation}{event.key}@{event.lsn}.{event.ordinal}" for event in file] for file in files
        ]
        return f"append {names}"

    def compact(self, table: Table, setting: Setting) -> str:
        """Compact all events into one file, with a snapshot that changes no rows."""
        head = table.current_snapshot()
        old = {
            delete_key(entry.data_file)
            for manifest in snapshots.manifests_of(table.io, head)  # type: ignore[arg-type]
            for entry in snapshots.entries_of(table.io, manifest)  # type: ignore[arg-type]
        }
        events = [event for file in self.files for event in file.events]
        data = [snapshots.write_parquet(table, as_arrow(setting, events), Record())] if events else []
        snapshot = snapshots.commit(table, "replace", data, removed=old)
        self.compacted += [File(0, 0, tuple(events), file.file_path) for file in data]
        self.snapshot_ids[snapshot.sequence_number or 0] = snapshot.snapshot_id
        self.rewritten = True
        return "compact the changelog"

    def _make_orderly(self, event: Event) -> Event:
        """Return the event, made newer if it is older than a delete of its key."""
        if event.truncates:
            return event
        if (event.lsn, event.ordinal) < self.deleted.get(event.key, (0, 0)):
            self.clock += 1
            event = replace(event, lsn=self.clock)
        if event.operation == "D":
            known = self.deleted.get(event.key, (0, 0))
            self.deleted[event.key] = max(known, (event.lsn, event.ordinal))
        return event

    def _tie(self, files: list[list[Event]], dice: random.Random) -> None:
        """Add an event with the same key and sequence to each later file."""
        tied = dice.choice(files[0])
        for file in files[1:]:
            self.revision += 1
            file.append(replace(tied, operation=dice.choice("UUD"), v=self.revision))

    def _events(self, setting: Setting, dice: random.Random) -> list[Event]:
        events: list[Event] = []
        for _ in range(dice.choice([1, 2, 3, 6])):
            chance = dice.random()
            known = [event for file in self.files[-6:] for event in file.events]
            if known and chance < 0.12:
                events.append(dice.choice(known))
                continue
            self.clock += dice.choice([0, 1, 1, 2])
            late = dice.randint(1, 30) if chance > 0.8 else 0
            self.revision += 1
            event = Event(
                key=dice.choice(setting.pool),
                operation=dice.choice("IIUUUDD"),
                lsn=self.clock - late,
                ordinal=dice.choice([0, 0, 1]),
                v=self.revision,
                c=dice.choice(_CATEGORIES),
                x=dice.choice(_NUMBERS),
            )
            events.append(_make_partial(event, setting, dice) if setting.partial else event)
        return events


def _make_partial(event: Event, setting: Setting, dice: random.Random) -> Event:
    """Sometimes omit a value, or change the key."""
    if event.operation == "U" and dice.random() < 0.6:
        event = replace(event, c=SAME)
    return replace(event, old=dice.choice(setting.pool)) if dice.random() < 0.2 else event


def as_arrow(setting: Setting, events: list[Event]) -> pa.Table:
    """Return these events as an Arrow table."""
    columns: dict[str, list[object]] = {
        name: [
            None if event.truncates or (event.bad == "null-key" and not at) else event.key[at]
            for event in events
        ]
        for at, name in enumerate(setting.key_names)
    }
    columns |= {name: [getattr(event, name) for event in events] for name in "vcx"}
    operations = [_BAD_OPERATIONS.get(event.bad, _OPERATIONS[event.operation]) for event in events]
    if setting.partial:
        columns |= {
            f"old_{name}": [None if event.old is None else event.old[at] for event in events]
            for at, name in enumerate(setting.key_names)
        }
        columns["op"] = list(operations)
        columns["file"] = [f"log.{event.lsn}" for event in events]
        columns["lsn"] = [f"0/{event.ordinal:X}" for event in events]
    else:
        columns["cdc_operation"] = list(operations)
        columns["sequence_number"] = [_sequence(event) for event in events]
    schema = arrow_schema(setting, setting.schema)
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _sequence(event: Event) -> str | None:
    match event.bad:
        case "null-sequence":
            return None
        case "unreadable-sequence":
            return f"{event.lsn}/{event.ordinal}"
        case _:
            return f"{event.lsn:016x}/{event.ordinal:016x}"
