"""Writes the changes of a PostgreSQL table to a changelog, and applies its schema changes by column number."""

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
from tests.services.pg_profiles import Event, MetadataColumn, Profile
from tests.services.pg_source import Change, Columns, Source
from tests.services.pgoutput import UNCHANGED, Row, Truncate

NAME = "lab.world_changelog"
_DUPLICATE_RATE = 0.15  # of the flushes deliver some rows again, as writers do after a restart


class Changelog:
    """The changelog table. `write` adds rows, split randomly into commits and files, with random duplicates."""

    def __init__(self, catalog: Catalog, profile: Profile, source: Source, rng: random.Random) -> None:
        self.catalog, self.profile, self.source, self.rng = catalog, profile, source, rng
        self.columns = source.columns()
        self.metadata_columns: list[MetadataColumn] = []
        self.done: Counter[str] = Counter()
        self._pending: list[Event] = []
        self._last_batch: list[Event] = []
        self.table = self._create()

    def copy(self) -> None:
        """Write the initial copy of the rows."""
        kinds = [(column.number, self.profile.type_of(column.type)) for column in self.columns.columns]
        for row in self.source.copy(self.columns):
            cells = zip(kinds, row, strict=True)
            values = {
                number: None if cell is None else pg_types.parse(cell, kind) for (number, kind), cell in cells
            }
            self._pending.append(self.profile.copy_event(values, self.source.copied_at))
        self.flush()

    def write(self, changes: Iterable[Change]) -> None:
        """Write these changes in order."""
        for change in changes:
            match change.content:
                case Row() as row:
                    self.done["large values omitted"] += UNCHANGED in (row.new or {}).values()
                    self._pending += self.profile.change_events(self.columns, row, change)
                case Columns() as columns:
                    self.flush()
                    self._change_columns(columns)
                case Truncate():
                    self._truncate(change)
        self.flush()

    def flush(self) -> None:
        """Commit the pending events."""
        if self._last_batch and self.rng.random() < _DUPLICATE_RATE:
            duplicates = self._last_batch[self.rng.randrange(len(self._last_batch)) :]
            self.done["duplicate events"] += len(duplicates)
            late = self.rng.random() < 0.5
            self._pending = self._pending + duplicates if late else duplicates + self._pending
        pending, self._pending = self._pending, []
        while pending:
            count = self.rng.choice((2, 10, 30, len(pending)))
            batch, pending = pending[:count], pending[count:]
            cut = self.rng.randrange(len(batch) + 1)
            self.append(*(file for file in (batch[:cut], batch[cut:]) if file))
            self._last_batch = batch
            self.done["events"] += len(batch)

    def append(self, *files: list[Event]) -> None:
        """Append these files in one commit."""
        names = {column.number: column.name for column in self.columns.columns}
        roles = {column.role: column.name for column in self.metadata_columns}
        append_files(
            self.table,
            *(
                rows_table(self._schema(events), [_row(event, names, roles) for event in events])
                for events in files
            ),
        )

    def _schema(self, events: list[Event]) -> Schema:
        """Return the changelog's schema, with optional columns if an event has no key (truncate)."""
        schema = self.table.schema()
        if all(event.values for event in events):
            return schema
        return Schema(*(field.model_copy(update={"required": False}) for field in schema.fields))

    def _create(self) -> Table:
        self.metadata_columns = self.profile.metadata_columns(self.columns)
        fields = [
            NestedField(
                field_id,
                column.name,
                self.profile.type_of(column.type),
                required=column.key,
                doc=column.comment,
            )
            for field_id, column in enumerate(self.columns.columns, 1)
        ]
        metadata = [
            NestedField(field_id, column.name, column.kind, required=column.required)
            for field_id, column in enumerate(self.metadata_columns, len(fields) + 1)
        ]
        keys = [field.field_id for field in fields if field.required]
        schema = Schema(*numbered([*fields, *metadata]), identifier_field_ids=keys)
        comment = {} if self.columns.comment is None else {"comment": self.columns.comment}
        self.catalog.create_namespace_if_not_exists("lab")
        return self.catalog.create_table(NAME, schema, properties=comment)

    def recreate(self) -> None:
        """Drop and create the table: after a TRUNCATE, or for a new copy."""
        self._pending, self._last_batch = [], []
        self.catalog.drop_table(NAME)
        self.table = self._create()

    def _truncate(self, change: Change) -> None:
        event = self.profile.truncate_event(change)
        if event is None:
            self.recreate()
        else:
            self._pending.append(event)

    def _change_columns(self, columns: Columns) -> None:
        """Apply one DDL statement as one schema change."""
        before, after = {column.number: column for column in self.columns.columns}, columns.columns
        with self.table.update_schema(allow_incompatible_changes=True) as update:
            for number in before.keys() - {column.number for column in after}:
                update.delete_column(before[number].name)
            for column in after:
                if column.number not in before:
                    self._add(update, column.name, column.type, column.comment)
                    continue
                old = before[column.number]
                if old.name != column.name:
                    update.rename_column(old.name, column.name)
                if self.profile.type_of(old.type) != self.profile.type_of(column.type):
                    update.update_column(old.name, self.profile.type_of(column.type))
                if old.comment != column.comment:
                    update.update_column(old.name, doc=column.comment or "")
            self._change_key_columns(update, columns)
        if columns.comment != self.columns.comment:
            with self.table.transaction() as transaction:
                transaction.set_properties({"comment": columns.comment or ""})
        self.columns = columns

    def _add(self, update: UpdateSchema, name: str, kind: str, comment: str | None) -> None:
        """Add a column in front of the metadata columns."""
        update.add_column(name, self.profile.type_of(kind), doc=comment)
        update.move_before(name, self.metadata_columns[0].name)

    def _change_key_columns(self, update: UpdateSchema, columns: Columns) -> None:
        """Rename and widen the metadata columns that are named after a key column."""
        after = {
            column.role: column
            for column in self.profile.metadata_columns(columns)
            if column.key_number is not None
        }
        for index, column in enumerate(self.metadata_columns):
            if column.role in after and column != after[column.role]:
                if column.name != after[column.role].name:
                    update.rename_column(column.name, after[column.role].name)
                if column.kind != after[column.role].kind:
                    update.update_column(column.name, after[column.role].kind)
                self.metadata_columns[index] = after[column.role]


def _row(event: Event, names: dict[int, str], roles: dict[str, str]) -> dict[str, Any]:
    values = {names[number]: value for number, value in event.values.items() if number in names}
    return values | {roles[role]: value for role, value in event.metadata.items() if role in roles}


def numbered(fields: list[NestedField]) -> list[NestedField]:
    """Assign element ids to lists, after the ids of the columns."""
    ids = iter(range(len(fields) + 1, 2 * len(fields) + 1))
    return [
        field.model_copy(update={"field_type": field.field_type.model_copy(update={"element_id": next(ids)})})
        if isinstance(field.field_type, ListType)
        else field
        for field in fields
    ]
