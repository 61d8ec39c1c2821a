"""Writes what a PostgreSQL says into a changelog, whose columns follow those of the source by their numbers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import ListType, NestedField

from tests.lab.lab import append_files, rows_table
from tests.services import pg_types
from tests.services.pg_profiles import Event, OwnColumn, Profile
from tests.services.pg_source import Change, Columns, Source
from tests.services.pgoutput import UNCHANGED, Row, Truncate

NAME = "lab.world_changelog"
_AGAIN = 0.15  # of the flushes tell some rows a second time, as writers do that begin anew, or end late


class Changelog:
    """The table in the catalog. Rows go in by `write`; commits, files and what is told twice are by chance."""

    def __init__(self, catalog: Catalog, profile: Profile, source: Source, chance: random.Random) -> None:
        self.catalog, self.profile, self.source, self.chance = catalog, profile, source, chance
        self.columns = source.columns()
        self.own: list[OwnColumn] = []
        self.done: Counter[str] = Counter()
        self._waiting: list[Event] = []
        self._sent: list[Event] = []
        self.table = self._create()

    def copy(self) -> None:
        """The rows that are there already."""
        kinds = [(one.number, self.profile.type_of(one.type)) for one in self.columns.columns]
        for row in self.source.copy(self.columns):
            cells = zip(kinds, row, strict=True)
            values = {at: None if cell is None else pg_types.parse(cell, kind) for (at, kind), cell in cells}
            self._waiting.append(self.profile.copied(values, self.source.copied_at))
        self.flush()

    def write(self, changes: Iterable[Change]) -> None:
        """These changes, in their order."""
        for change in changes:
            match change.told:
                case Row() as row:
                    self.done["large values not told"] += UNCHANGED in (row.new or {}).values()
                    self._waiting += self.profile.told(self.columns, row, change)
                case Columns() as columns:
                    self.flush()
                    self._follow(columns)
                case Truncate():
                    self._truncate(change)
        self.flush()

    def flush(self) -> None:
        """Commits what waits."""
        if self._sent and self.chance.random() < _AGAIN:
            again = self._sent[self.chance.randrange(len(self._sent)) :]
            self.done["events told again"] += len(again)
            late = self.chance.random() < 0.5
            self._waiting = self._waiting + again if late else again + self._waiting
        waiting, self._waiting = self._waiting, []
        while waiting:
            count = self.chance.choice((2, 10, 30, len(waiting)))
            some, waiting = waiting[:count], waiting[count:]
            cut = self.chance.randrange(len(some) + 1)
            self.append(*(part for part in (some[:cut], some[cut:]) if part))
            self._sent = some
            self.done["events"] += len(some)

    def append(self, *files: list[Event]) -> None:
        """One commit of files."""
        names = {one.number: one.name for one in self.columns.columns}
        roles = {one.role: one.name for one in self.own}
        append_files(
            self.table,
            *(
                rows_table(self._schema(events), [_row(one, names, roles) for one in events])
                for events in files
            ),
        )

    def _schema(self, events: list[Event]) -> Schema:
        """The changelog's; events of the whole table have no key."""
        schema = self.table.schema()
        if all(event.values for event in events):
            return schema
        return Schema(*(one.model_copy(update={"required": False}) for one in schema.fields))

    def _create(self) -> Table:
        self.own = self.profile.own_columns(self.columns)
        fields = [
            NestedField(at, one.name, self.profile.type_of(one.type), required=one.key, doc=one.comment)
            for at, one in enumerate(self.columns.columns, 1)
        ]
        own = [
            NestedField(at, one.name, one.kind, required=one.required)
            for at, one in enumerate(self.own, len(fields) + 1)
        ]
        keys = [field.field_id for field in fields if field.required]
        schema = Schema(*numbered([*fields, *own]), identifier_field_ids=keys)
        comment = {} if self.columns.comment is None else {"comment": self.columns.comment}
        self.catalog.create_namespace_if_not_exists("lab")
        return self.catalog.create_table(NAME, schema, properties=comment)

    def make_anew(self) -> None:
        """Another table of the same name: TRUNCATE, or a new copy."""
        self._waiting, self._sent = [], []
        self.catalog.drop_table(NAME)
        self.table = self._create()

    def _truncate(self, change: Change) -> None:
        event = self.profile.truncated(change)
        if event is None:
            self.make_anew()
        else:
            self._waiting.append(event)

    def _follow(self, columns: Columns) -> None:
        """One statement of DDL: a schema of its own."""
        was, now = {one.number: one for one in self.columns.columns}, columns.columns
        with self.table.update_schema(allow_incompatible_changes=True) as update:
            for number in was.keys() - {one.number for one in now}:
                update.delete_column(was[number].name)
            for one in now:
                if one.number not in was:
                    self._add(update, one.name, one.type, one.comment)
                    continue
                before = was[one.number]
                if before.name != one.name:
                    update.rename_column(before.name, one.name)
                if self.profile.type_of(before.type) != self.profile.type_of(one.type):
                    update.update_column(before.name, self.profile.type_of(one.type))
                if before.comment != one.comment:
                    update.update_column(before.name, doc=one.comment or "")
            self._follow_keys(update, columns)
        if columns.comment != self.columns.comment:
            with self.table.transaction() as transaction:
                transaction.set_properties({"comment": columns.comment or ""})
        self.columns = columns

    def _add(self, update: UpdateSchema, name: str, kind: str, comment: str | None) -> None:
        """Before the writer's own columns."""
        update.add_column(name, self.profile.type_of(kind), doc=comment)
        update.move_before(name, self.own[0].name)

    def _follow_keys(self, update: UpdateSchema, columns: Columns) -> None:
        """The writer's columns that are named after one of the source."""
        now = {one.role: one for one in self.profile.own_columns(columns) if one.beside is not None}
        for at, one in enumerate(self.own):
            if one.role in now and one != now[one.role]:
                if one.name != now[one.role].name:
                    update.rename_column(one.name, now[one.role].name)
                if one.kind != now[one.role].kind:
                    update.update_column(one.name, now[one.role].kind)
                self.own[at] = now[one.role]


def _row(event: Event, names: dict[int, str], roles: dict[str, str]) -> dict[str, Any]:
    values = {names[number]: value for number, value in event.values.items() if number in names}
    return values | {roles[role]: value for role, value in event.own.items() if role in roles}


def numbered(fields: list[NestedField]) -> list[NestedField]:
    """Elements of lists get ids behind those of the columns."""
    ids = iter(range(len(fields) + 1, 2 * len(fields) + 1))
    return [
        one.model_copy(update={"field_type": one.field_type.model_copy(update={"element_id": next(ids)})})
        if isinstance(one.field_type, ListType)
        else one
        for one in fields
    ]
