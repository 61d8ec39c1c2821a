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
from tests.sim.evolve.source import KEY, SourceRecord, Values, row_fields

CURSOR, REPLAY = "icemirror.cursor", "icemirror.replay"
_FIELD_ID = b"PARQUET:field_id"
_ARROW = {"int": "int32", "long": "int64", "float": "float", "double": "double"}


class FieldIdReader(Reader):
    """Reads rows as field id → value, nested fields included, with the types in which they were written.

    `key`: the key field, which no change of columns affects.
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
                {_id(column): _by_id(column, row[column.name]) for column in table.schema}
                for row in table.to_pylist()
            ]
            self._rows[path] = [((row[self.key],), row) for row in rows]
        return self._rows[path]


def _id(column: pa.Field) -> int:
    return int(column.metadata[_FIELD_ID])


def _by_id(column: pa.Field, value: Any) -> Any:
    if value is None or not pa.types.is_struct(column.type):
        return value
    return {_id(child): _by_id(child, value[child.name]) for child in column.type}


def _types(fields: Any) -> list[tuple[int, str]]:
    found = [(_id(column), str(column.type)) for column in fields]
    for column in fields:
        if pa.types.is_struct(column.type):
            found += _types(column.type)
    return found


@dataclass
class Judge:
    """Checks every commit. `ids`: the mirror's field id of each changelog column."""

    io: MemoryIO
    record: SourceRecord
    drops: bool
    partitioned_by: int | None
    ids: dict[int, int] = field(default_factory=dict)
    merged: int = 0
    checked: int = 0

    def __post_init__(self) -> None:
        self.reader = FieldIdReader(self.io)

    def record_created(self, mirror: Schema, changelog: Schema) -> None:
        """Record the empty mirror: it may keep these columns, even if they are dropped before the first rows."""
        self._check_fields(row_fields(changelog), mirror.fields, "")

    def judge(
        self, before: TableMetadata, after: TableMetadata, changelog: Schema, staged: Sequence[Schema]
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
            raise Divergence(f"the snapshot has schema {head.schema_id}, not {after.current_schema_id}")
        assert head.summary is not None
        summary = head.summary.additional_properties
        merged = self.record.merged(Cursor.model_validate_json(summary[CURSOR]).source)
        full = summary.get(REPLAY, "").startswith("full")
        if changed or merged > self.merged or full:
            *earlier, last = staged if full and staged else [changelog]
            self._check_columns(after.schema(), last, earlier)
        self.merged = merged
        self._check_rows(head, after.schema(), full=full)
        self.checked += 1

    def _check_columns(self, mirror: Schema, changelog: Schema, earlier: Sequence[Schema]) -> None:
        source_fields = row_fields(changelog)
        self._check_fields(source_fields, mirror.fields, "")
        present = {column.field_id: column for column in _all_fields(mirror.fields)}
        live = {column.field_id for column in _all_fields(source_fields)}
        for source, target in list(self.ids.items()):
            if source in live:
                continue
            if self.drops and target != self.partitioned_by:
                if target in present:
                    raise Divergence(f"{present[target].name} was not dropped")
                del self.ids[source]
            elif target not in present:
                raise Divergence(f"the dropped column {source} is missing")
            elif present[target].required:
                raise Divergence(f"the dropped column {source} is required")
        unknown = set(present) - set(self.ids.values())
        dropped = {
            column.name: column.field_id for schema in earlier for column in _all_fields(row_fields(schema))
        }
        for target in [] if self.drops else sorted(unknown):
            old_id = dropped.get(present[target].name)
            if old_id is not None and old_id not in live | self.ids.keys() and not present[target].required:
                self.ids[old_id] = target
                unknown.remove(target)
        if unknown:
            raise Divergence(f"unknown columns: {[present[target].name for target in unknown]}")

    def _check_fields(
        self, source_fields: Sequence[NestedField], mirror_fields: Sequence[NestedField], within: str
    ) -> None:
        """Check that live columns come first, in the changelog's order, with its names and types and stable ids."""
        for source, target in zip(source_fields, mirror_fields, strict=False):
            if source.name != target.name or source.doc != target.doc:
                raise Divergence(
                    f"{within}{source.name} ({source.doc}) is {target.name} ({target.doc}) in the mirror"
                )
            known = self.ids.setdefault(source.field_id, target.field_id)
            if known != target.field_id:
                raise Divergence(f"{within}{source.name} moved from field {known} to {target.field_id}")
            if isinstance(source.field_type, StructType) and isinstance(target.field_type, StructType):
                self._check_fields(source.field_type.fields, target.field_type.fields, f"{source.name}.")
            elif source.field_type != target.field_type:
                raise Divergence(f"{within}{source.name} is {target.field_type}, not {source.field_type}")
            if target.required and not source.required:
                raise Divergence(f"{within}{source.name} is required")
        if len(source_fields) > len(mirror_fields):
            raise Divergence(f"{within}{source_fields[len(mirror_fields)].name} is missing")
        if len(set(self.ids.values())) < len(self.ids):
            raise Divergence(f"two columns share one field of the mirror: {self.ids}")

    def _check_rows(self, head: Snapshot, mirror: Schema, *, full: bool) -> None:
        fields = {column.field_id: column for column in mirror.fields}
        self.reader.key = self.ids[KEY]
        seen = set(self.reader.types)
        contents = self.reader.read(head)
        found = {key[0]: row for key, row in contents.by_key().items()}
        expected = self.record.rows(self.merged)
        if found.keys() != expected.keys():
            raise Divergence(f"keys {sorted(found)}, not {sorted(expected)}")
        by_source = {source: target for source, target in self.ids.items() if target in fields}
        for key, values in expected.items():
            row: Any = found[key]
            for source, target in by_source.items():
                found_value = _projected(fields[target], row.get(target))
                expected_value = self._mirrored(fields[target], values.get(source))
                if found_value != expected_value:
                    name = fields[target].name
                    raise Divergence(
                        f"key {key}, {name} (fields {source} → {target}): {found_value}, not {expected_value}"
                    )
        if not full:
            for path in set(self.reader.types) - seen:
                self._check_types(mirror, self.reader.types[path])

    def _mirrored(self, column: NestedField, value: Any) -> Any:
        """Return a changelog value as the mirror should have it, by the mirror's field ids."""
        if value is None or not isinstance(column.field_type, StructType):
            return value
        sources = {target: source for source, target in self.ids.items()}
        return {
            child.field_id: self._mirrored(child, value.get(sources.get(child.field_id, -1)))
            for child in column.field_type.fields
        }

    def _check_types(self, mirror: Schema, written: dict[int, str]) -> None:
        for column in _all_fields(mirror.fields):
            kind = column.field_type
            expected = (
                f"decimal128({kind.precision}, {kind.scale})"
                if isinstance(kind, DecimalType)
                else _ARROW.get(str(kind))
            )
            if expected is not None and written.get(column.field_id, expected) != expected:
                raise Divergence(
                    f"{column.name} was written as {written[column.field_id]}, not as {expected}"
                )


def _all_fields(fields: Sequence[NestedField]) -> list[NestedField]:
    found = list(fields)
    for column in fields:
        if isinstance(column.field_type, StructType):
            found += _all_fields(column.field_type.fields)
    return found


def _projected(column: NestedField, value: Values | Any) -> Any:
    """Return a value of a file as a reader of the table sees it."""
    if value is None or not isinstance(column.field_type, StructType):
        return value
    return {
        child.field_id: _projected(child, value.get(child.field_id)) for child in column.field_type.fields
    }
