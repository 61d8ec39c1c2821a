"""The columns of a rejects table: icemirror's own, then those of the changelog, all of them optional.

New columns of the changelog are added, dropped ones stay, wider types are followed. So no schema change of the
changelog prevents a row from being rejected.
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
    """icemirror's own columns; the field map has these numbers in place of field ids of the changelog."""

    REASON = -1
    MESSAGE = -2
    REJECTED_AT = -3
    SNAPSHOT_ID = -4
    COMMIT = -5
    FILE = -6
    POSITION = -7


_METADATA_COLUMNS: Mapping[RejectsColumn, tuple[str, IcebergType]] = {
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
    ids: FieldMap


def evolve_rejects_schema(
    changelog: Sequence[NestedField],
    before: RejectsSchema | None = None,
    last_id: int = 0,
    *,
    by_name: bool = False,
) -> RejectsSchema:
    """Return the columns needed for rows of this changelog. `last_id`: the greatest field id the table ever used.

    `by_name`: the table belonged to another changelog, so columns are matched by name instead of field id.
    """
    icemirror_columns = [
        NestedField(column, name, kind, required=False) for column, (name, kind) in _METADATA_COLUMNS.items()
    ]
    known = {} if before is None else before.ids
    kept = {source: target for source, target in known.items() if source < 0 or not by_name}
    evolver = _SchemaEvolver(kept, last_id, by_name)
    struct = evolver.struct(
        StructType(*icemirror_columns, *changelog), before.schema.as_struct() if before else None
    )
    icemirror_ids = {evolver.ids[column] for column in RejectsColumn}
    fields = [field if field.field_id in icemirror_ids else _optional(field) for field in struct.fields]
    required = [field.field_id for field in fields if field.required]
    key = [
        field_id
        for field_id in (before.schema.identifier_field_ids if before else ())
        if field_id in required
    ]
    return RejectsSchema(Schema(*fields, identifier_field_ids=key), evolver.ids)


class _SchemaEvolver:
    """Assigns field ids in the order of the schema, like `field_ids`."""

    def __init__(self, ids: FieldMap, last_id: int, by_name: bool) -> None:
        self.ids = dict(ids)
        self._last = last_id
        self._by_name = by_name

    def struct(self, wanted: StructType, present: StructType | None) -> StructType:
        before = {field.field_id: field for field in present.fields} if present else {}
        grown = dict(before)
        for field in wanted.fields:
            old = self._counterpart(field, before)
            number = self._number(field.field_id, old.field_id if old else None)
            kind = self._type(field.field_type, old.field_type if old else None)
            if old is None:
                grown[number] = NestedField(number, _free_name(field, grown.values()), kind, required=False)
            elif kind != old.field_type:
                grown[number] = NestedField(number, old.name, kind, required=False, doc=old.doc)
        return StructType(*grown.values())

    def _counterpart(self, field: NestedField, before: Mapping[int, NestedField]) -> NestedField | None:
        """Return the column for the values of a field, if one has a compatible type."""
        old = before.get(self.ids.get(field.field_id, 0))
        if old is None and self._by_name:
            used = set(self.ids.values())
            same = (
                candidate
                for candidate in before.values()
                if candidate.name == field.name and candidate.field_id not in used
            )
            old = next(same, None)
        return old if old is not None and _fits(old.field_type, field.field_type) else None

    def _number(self, source: int, old: int | None) -> int:
        if old is None:
            self._last += 1
        self.ids[source] = self._last if old is None else old
        return self.ids[source]

    def _type(self, wanted: IcebergType, present: IcebergType | None) -> IcebergType:
        match wanted:
            case StructType():
                return self.struct(wanted, present if isinstance(present, StructType) else None)
            case ListType():
                old = present if isinstance(present, ListType) else None
                number = self._number(wanted.element_id, old.element_id if old else None)
                element = self._type(wanted.element_type, old.element_type if old else None)
                return ListType(number, element, element_required=False)
            case MapType():
                was = present if isinstance(present, MapType) else None
                key_id = self._number(wanted.key_id, was.key_id if was else None)
                value_id = self._number(wanted.value_id, was.value_id if was else None)
                key = self._type(wanted.key_type, was.key_type if was else None)
                value = self._type(wanted.value_type, was.value_type if was else None)
                return MapType(key_id, key, value_id, value, value_required=False)
            case _:
                return wanted if present is None or can_promote(present, wanted) else present


def _optional(field: NestedField) -> NestedField:
    """Make a field optional, also one of another writer: bad rows may lack any value."""
    return field.model_copy(update={"required": False}) if field.required else field


def _fits(present: IcebergType, wanted: IcebergType) -> bool:
    """Return whether a column of one type can hold values of the other, if need be after a promotion."""
    match present, wanted:
        case StructType(), StructType():
            return True
        case ListType(), ListType():
            return _fits(present.element_type, wanted.element_type)
        case MapType(), MapType():
            return _fits(present.key_type, wanted.key_type) and _fits(present.value_type, wanted.value_type)
        case _:
            return present == wanted or can_promote(present, wanted) or can_promote(wanted, present)


def _free_name(field: NestedField, others: Iterable[NestedField]) -> str:
    """Return the name of a field, with its id appended while another column has that name."""
    taken = {other.name.casefold() for other in others}
    name = field.name
    while name.casefold() in taken:
        name = f"{name}_{field.field_id}"
    return name
