"""Invariants of a mirror whose changelog's columns change: read from its files only by field id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import DecimalType, NestedField, StructType

from icemirror.tables.cursor import Cursor
from tests.sim.engine.memory_io import MemoryIO
from tests.sim.engine.reader import Divergence, Reader
from tests.sim.evolve.source import KEY, Memory, Values, row_fields

CURSOR, REPLAY = "icemirror.cursor", "icemirror.replay"
_FIELD_ID = b"PARQUET:field_id"
_ARROW = {"int": "int32", "long": "int64", "float": "float", "double": "double"}


class ById(Reader):
    """Rows as field id → value, nested ones included, and the types that they were written with.

    `key`: the key field, which stays through all changes of columns.
    """

    def __init__(self, io: MemoryIO) -> None:
        super().__init__(io, [])
        self.types: dict[str, dict[int, str]] = {}
        self.key: int | None = None

    def _read_rows(self, path: str) -> list[Any]:
        if path not in self._rows:
            table = pq.ParquetFile(pa.BufferReader(self._io.read(path))).read()
            self.types[path] = dict(_types(table.schema))
            rows: list[Any] = [
                {_id(one): _by_id(one, row[one.name]) for one in table.schema} for row in table.to_pylist()
            ]
            self._rows[path] = [((row[self.key],), row) for row in rows]
        return self._rows[path]


def _id(one: pa.Field) -> int:
    return int(one.metadata[_FIELD_ID])


def _by_id(one: pa.Field, value: Any) -> Any:
    if value is None or not pa.types.is_struct(one.type):
        return value
    return {_id(part): _by_id(part, value[part.name]) for part in one.type}


def _types(fields: Any) -> list[tuple[int, str]]:
    found = [(_id(one), str(one.type)) for one in fields]
    for one in fields:
        if pa.types.is_struct(one.type):
            found += _types(one.type)
    return found


@dataclass
class Judge:
    """`ids`: the mirror's field id of each changelog column, since it was first seen there."""

    io: MemoryIO
    memory: Memory
    drops: bool
    partitioned_by: int | None
    ids: dict[int, int] = field(default_factory=dict)
    merged: int = 0
    checked: int = 0

    def __post_init__(self) -> None:
        self.reader = ById(self.io)

    def made(self, mirror: Schema, shown: Schema) -> None:
        """Record the empty mirror: it may keep these columns, even if they are dropped before the first rows."""
        self._check_fields(row_fields(shown), mirror.fields, "")

    def look(
        self, before: TableMetadata, after: TableMetadata, shown: Schema, staged: Sequence[Schema]
    ) -> None:
        """Judge a commit of a merge that read this schema of the changelog.

        `staged`: the schemas that a rebuild read, the last one with its last slice. Like a mirror, it may keep columns
        of the earlier ones.
        """
        head = after.current_snapshot()
        changed = before.current_schema_id != after.current_schema_id
        if head is None or head.snapshot_id == before.current_snapshot_id:
            if changed:
                raise Divergence("columns changed without the rows that need them")
            return
        if head.schema_id != after.current_schema_id:
            raise Divergence(f"the snapshot is of schema {head.schema_id}, not {after.current_schema_id}")
        assert head.summary is not None
        summary = head.summary.additional_properties
        merged = self.memory.merged(Cursor.model_validate_json(summary[CURSOR]).source)
        full = summary.get(REPLAY, "").startswith("full")
        if changed or merged > self.merged or full:
            *earlier, last = staged if full and staged else [shown]
            self._check_columns(after.schema(), last, earlier)
        self.merged = merged
        self._check_rows(head, after.schema(), full=full)
        self.checked += 1

    def _check_columns(self, mirror: Schema, changelog: Schema, earlier: Sequence[Schema]) -> None:
        here = row_fields(changelog)
        self._check_fields(here, mirror.fields, "")
        present = {one.field_id: one for one in _every(mirror.fields)}
        live = {one.field_id for one in _every(here)}
        for source, target in list(self.ids.items()):
            if source in live:
                continue
            if self.drops and target != self.partitioned_by:
                if target in present:
                    raise Divergence(f"{present[target].name} is still there")
                del self.ids[source]
            elif target not in present:
                raise Divergence(f"the dropped column {source} is missing")
            elif present[target].required:
                raise Divergence(f"the dropped column {source} is required")
        own = set(present) - set(self.ids.values())
        went = {one.name: one.field_id for schema in earlier for one in _every(row_fields(schema))}
        for one in [] if self.drops else sorted(own):
            left = went.get(present[one].name)
            if left is not None and left not in live | self.ids.keys() and not present[one].required:
                self.ids[left] = one
                own.remove(one)
        if own:
            raise Divergence(f"columns from nowhere: {[present[one].name for one in own]}")

    def _check_fields(self, here: Sequence[NestedField], there: Sequence[NestedField], within: str) -> None:
        """Check that live columns come first, in the changelog's order, with its names and types and stable ids."""
        for one, other in zip(here, there, strict=False):
            if one.name != other.name or one.doc != other.doc:
                raise Divergence(
                    f"{within}{one.name} ({one.doc}) is {other.name} ({other.doc}) in the mirror"
                )
            known = self.ids.setdefault(one.field_id, other.field_id)
            if known != other.field_id:
                raise Divergence(f"{within}{one.name} moved from field {known} to {other.field_id}")
            if isinstance(one.field_type, StructType) and isinstance(other.field_type, StructType):
                self._check_fields(one.field_type.fields, other.field_type.fields, f"{one.name}.")
            elif one.field_type != other.field_type:
                raise Divergence(f"{within}{one.name} is {other.field_type}, not {one.field_type}")
            if other.required and not one.required:
                raise Divergence(f"{within}{one.name} is required")
        if len(here) > len(there):
            raise Divergence(f"{within}{here[len(there)].name} is missing")
        if len(set(self.ids.values())) < len(self.ids):
            raise Divergence(f"two columns are one in the mirror: {self.ids}")

    def _check_rows(self, head: Snapshot, mirror: Schema, *, full: bool) -> None:
        fields = {one.field_id: one for one in mirror.fields}
        self.reader.key = self.ids[KEY]
        seen = set(self.reader.types)
        contents = self.reader.read(head)
        found = {key[0]: row for key, row in contents.by_key().items()}
        expected = self.memory.rows(self.merged)
        if found.keys() != expected.keys():
            raise Divergence(f"keys {sorted(found)}, not {sorted(expected)}")
        by_source = {source: target for source, target in self.ids.items() if target in fields}
        for key, values in expected.items():
            row: Any = found[key]
            for source, target in by_source.items():
                got = _projected(fields[target], row.get(target))
                wanted = self._mirrored(fields[target], values.get(source))
                if got != wanted:
                    name = fields[target].name
                    raise Divergence(f"key {key}, {name} (fields {source} → {target}): {got}, not {wanted}")
        if not full:
            for path in set(self.reader.types) - seen:
                self._check_types(mirror, self.reader.types[path])

    def _mirrored(self, of: NestedField, value: Any) -> Any:
        """Return a changelog value as the mirror should have it, by the mirror's field ids."""
        if value is None or not isinstance(of.field_type, StructType):
            return value
        sources = {target: source for source, target in self.ids.items()}
        return {
            one.field_id: self._mirrored(one, value.get(sources.get(one.field_id, -1)))
            for one in of.field_type.fields
        }

    def _check_types(self, mirror: Schema, written: dict[int, str]) -> None:
        for one in _every(mirror.fields):
            kind = one.field_type
            told = (
                f"decimal128({kind.precision}, {kind.scale})"
                if isinstance(kind, DecimalType)
                else _ARROW.get(str(kind))
            )
            if told is not None and written.get(one.field_id, told) != told:
                raise Divergence(f"{one.name} was written as {written[one.field_id]}, not as {told}")


def _every(fields: Sequence[NestedField]) -> list[NestedField]:
    found = list(fields)
    for one in fields:
        if isinstance(one.field_type, StructType):
            found += _every(one.field_type.fields)
    return found


def _projected(of: NestedField, value: Values | Any) -> Any:
    """Return a value of a file as a reader of the table sees it."""
    if value is None or not isinstance(of.field_type, StructType):
        return value
    return {one.field_id: _projected(one, value.get(one.field_id)) for one in of.field_type.fields}
