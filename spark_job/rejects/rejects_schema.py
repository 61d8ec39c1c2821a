"""The columns of a rejects table: those that icemirror adds, then those of the changelog, all of them optional.

New columns of the changelog are added, dropped ones stay, wider types are adopted. So no schema change of the changelog
prevents a row from being rejected. `plan.evolve_columns` cannot be used: it raises an error for changes that a mirror
does not allow, where this module adds a column instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from spark_job.columns.field_map import FieldMap
from spark_job.plan.evolve_columns import can_promote


class RejectsColumn(IntEnum):
    """The columns that icemirror adds; the field map has these numbers in place of field ids of the changelog."""

    REASON = -1
    MESSAGE = -2
    REJECTED_AT = -3
    SNAPSHOT_ID = -4
    COMMIT = -5
    FILE = -6
    POSITION = -7


_ADDED_COLUMNS: Mapping[RejectsColumn, tuple[str, IcebergType]] = {
    RejectsColumn.REASON: ("icemirror_reason", StringType()),
    RejectsColumn.MESSAGE: ("icemirror_message", StringType()),
    RejectsColumn.REJECTED_AT: ("icemirror_rejected_at", TimestamptzType()),
    RejectsColumn.SNAPSHOT_ID: ("icemirror_snapshot_id", LongType()),
    RejectsColumn.COMMIT: ("icemirror_commit", LongType()),
    RejectsColumn.FILE: ("icemirror_file", StringType()),
    RejectsColumn.POSITION: ("icemirror_position", LongType()),
}


@dataclass(frozen=True)
class RejectsSchema:
    """A schema, and the map to its field ids from those of the changelog and from `RejectsColumn`."""

    schema: Schema
    field_map: FieldMap


def evolve_rejects_schema(
    changelog: Sequence[NestedField],
    current: RejectsSchema | None = None,
    last_id: int = 0,
    *,
    by_name: bool = False,
) -> RejectsSchema:
    """Return the columns needed for rows of this changelog. `last_id`: the greatest field id the table ever used.

    `by_name`: the table belonged to another changelog, so columns are matched by name instead of field id.
    """
    added_columns = [
        NestedField(column, name, field_type, required=False)
        for column, (name, field_type) in _ADDED_COLUMNS.items()
    ]
    current_ids = {} if current is None else current.field_map
    mapped_ids = {source: target for source, target in current_ids.items() if source < 0 or not by_name}
    evolver = _SchemaEvolver(mapped_ids, last_id, by_name)
    struct = evolver.evolve_struct(
        StructType(*added_columns, *changelog), current.schema.as_struct() if current else None
    )
    added_ids = {evolver.field_map[column] for column in RejectsColumn}
    fields = [field if field.field_id in added_ids else _optional(field) for field in struct.fields]
    required_ids = [field.field_id for field in fields if field.required]
    identifier_ids = [
        field_id
        for field_id in (current.schema.identifier_field_ids if current else ())
        if field_id in required_ids
    ]
    return RejectsSchema(Schema(*fields, identifier_field_ids=identifier_ids), evolver.field_map)


class _SchemaEvolver:
    """Assigns field ids in the order of the schema, like `field_ids`."""

    def __init__(self, field_map: FieldMap, last_id: int, by_name: bool) -> None:
        self.field_map = dict(field_map)
        self._last_id = last_id
        self._by_name = by_name

    def evolve_struct(self, source: StructType, old: StructType | None) -> StructType:
        """Return the struct for values of the source's struct: all old fields, then the new ones."""
        old_fields = {field.field_id: field for field in old.fields} if old else {}
        fields = dict(old_fields)
        for field in source.fields:
            old_field = self._find_old_field(field, old_fields)
            field_id = self._assign_id(field.field_id, old_field.field_id if old_field else None)
            field_type = self._evolve_type(field.field_type, old_field.field_type if old_field else None)
            if old_field is None:
                name = _free_name(field, fields.values())
                fields[field_id] = NestedField(field_id, name, field_type, required=False)
            elif field_type != old_field.field_type:
                fields[field_id] = NestedField(
                    field_id, old_field.name, field_type, required=False, doc=old_field.doc
                )
        return StructType(*fields.values())

    def _find_old_field(
        self, field: NestedField, old_fields: Mapping[int, NestedField]
    ) -> NestedField | None:
        """Return the column for the values of a field, if one has a compatible type."""
        old_field = old_fields.get(self.field_map.get(field.field_id, 0))
        if old_field is None and self._by_name:
            used_ids = set(self.field_map.values())
            candidates = (
                candidate
                for candidate in old_fields.values()
                if candidate.name == field.name and candidate.field_id not in used_ids
            )
            old_field = next(candidates, None)
        if old_field is None or not _can_hold(old_field.field_type, field.field_type):
            return None
        return old_field

    def _assign_id(self, source_id: int, old_id: int | None) -> int:
        """Return the table's field id for a field of the changelog: the old one, else the next free one."""
        if old_id is None:
            self._last_id += 1
        self.field_map[source_id] = self._last_id if old_id is None else old_id
        return self.field_map[source_id]

    def _evolve_type(self, source: IcebergType, old: IcebergType | None) -> IcebergType:
        match source:
            case StructType():
                return self.evolve_struct(source, old if isinstance(old, StructType) else None)
            case ListType():
                old_list = old if isinstance(old, ListType) else None
                element_id = self._assign_id(source.element_id, old_list.element_id if old_list else None)
                element = self._evolve_type(source.element_type, old_list.element_type if old_list else None)
                return ListType(element_id, element, element_required=False)
            case MapType():
                old_map = old if isinstance(old, MapType) else None
                key_id = self._assign_id(source.key_id, old_map.key_id if old_map else None)
                value_id = self._assign_id(source.value_id, old_map.value_id if old_map else None)
                key = self._evolve_type(source.key_type, old_map.key_type if old_map else None)
                value = self._evolve_type(source.value_type, old_map.value_type if old_map else None)
                return MapType(key_id, key, value_id, value, value_required=False)
            case _:
                return source if old is None or can_promote(old, source) else old


def _optional(field: NestedField) -> NestedField:
    """Return an optional field, also for one that another engine added: bad rows may lack any value."""
    return field.model_copy(update={"required": False}) if field.required else field


def _can_hold(column: IcebergType, source: IcebergType) -> bool:
    """Return whether a column of one type can hold values of the source's type, if need be after a promotion."""
    match column, source:
        case StructType(), StructType():
            return True
        case ListType(), ListType():
            return _can_hold(column.element_type, source.element_type)
        case MapType(), MapType():
            return _can_hold(column.key_type, source.key_type) and _can_hold(
                column.value_type, source.value_type
            )
        case _:
            return column == source or can_promote(column, source) or can_promote(source, column)


def _free_name(field: NestedField, columns: Iterable[NestedField]) -> str:
    """Return the name of a field, with its id appended while another column has that name."""
    used_names = {column.name.casefold() for column in columns}
    name = field.name
    while name.casefold() in used_names:
        name = f"{name}_{field.field_id}"
    return name
