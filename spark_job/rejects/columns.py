"""The columns of a rejects table: icemirror's own, then the changelog's as they come, all of them optional. Pure.

A column that comes to the changelog is added, one that goes stays, a wider type is followed. So nothing that happens to
a changelog's schema stands in the way of putting a row aside.
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
from spark_job.schema_changes.evolve import widens


class Own(IntEnum):
    """icemirror's own columns: the numbers that stand for them in the map, beside the changelog's field ids."""

    REASON = -1
    MESSAGE = -2
    REJECTED_AT = -3
    SNAPSHOT_ID = -4
    COMMIT = -5
    FILE = -6
    POSITION = -7


_OWN: Mapping[Own, tuple[str, IcebergType]] = {
    Own.REASON: ("icemirror_reason", StringType()),
    Own.MESSAGE: ("icemirror_message", StringType()),
    Own.REJECTED_AT: ("icemirror_rejected_at", TimestamptzType()),
    Own.SNAPSHOT_ID: ("icemirror_snapshot_id", LongType()),
    Own.COMMIT: ("icemirror_commit", LongType()),
    Own.FILE: ("icemirror_file", StringType()),
    Own.POSITION: ("icemirror_position", LongType()),
}


@dataclass(frozen=True)
class Columns:
    """A schema, and the map to it from the changelog's field ids and the numbers of icemirror's own columns."""

    schema: Schema
    ids: FieldMap


def grow(
    changelog: Sequence[NestedField],
    before: Columns | None = None,
    last_id: int = 0,
    *,
    by_name: bool = False,
) -> Columns:
    """What the columns must be to take rows of this changelog. `last_id`: the greatest that the table ever gave.

    `by_name`: the table was made for another changelog of that name, whose field ids say nothing of this one.
    """
    own = [NestedField(one, name, kind, required=False) for one, (name, kind) in _OWN.items()]
    known = {} if before is None else before.ids
    kept = {source: target for source, target in known.items() if source < 0 or not by_name}
    growth = _Growth(kept, last_id, by_name)
    struct = growth.struct(StructType(*own, *changelog), before.schema.as_struct() if before else None)
    ours = {growth.ids[one] for one in Own}
    fields = [one if one.field_id in ours else _optional(one) for one in struct.fields]
    required = [one.field_id for one in fields if one.required]
    key = [one for one in (before.schema.identifier_field_ids if before else ()) if one in required]
    return Columns(Schema(*fields, identifier_field_ids=key), growth.ids)


class _Growth:
    """Numbers fields in the order of the schema, as `field_ids` tells them."""

    def __init__(self, ids: FieldMap, last_id: int, by_name: bool) -> None:
        self.ids = dict(ids)
        self._last = last_id
        self._by_name = by_name

    def struct(self, wanted: StructType, there: StructType | None) -> StructType:
        before = {field.field_id: field for field in there.fields} if there else {}
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
        """The column that takes the values of a field, if there is one that can."""
        old = before.get(self.ids.get(field.field_id, 0))
        if old is None and self._by_name:
            used = set(self.ids.values())
            same = (one for one in before.values() if one.name == field.name and one.field_id not in used)
            old = next(same, None)
        return old if old is not None and _fits(old.field_type, field.field_type) else None

    def _number(self, source: int, old: int | None) -> int:
        if old is None:
            self._last += 1
        self.ids[source] = self._last if old is None else old
        return self.ids[source]

    def _type(self, wanted: IcebergType, there: IcebergType | None) -> IcebergType:
        match wanted:
            case StructType():
                return self.struct(wanted, there if isinstance(there, StructType) else None)
            case ListType():
                old = there if isinstance(there, ListType) else None
                number = self._number(wanted.element_id, old.element_id if old else None)
                element = self._type(wanted.element_type, old.element_type if old else None)
                return ListType(number, element, element_required=False)
            case MapType():
                was = there if isinstance(there, MapType) else None
                key_id = self._number(wanted.key_id, was.key_id if was else None)
                value_id = self._number(wanted.value_id, was.value_id if was else None)
                key = self._type(wanted.key_type, was.key_type if was else None)
                value = self._type(wanted.value_type, was.value_type if was else None)
                return MapType(key_id, key, value_id, value, value_required=False)
            case _:
                return wanted if there is None or widens(there, wanted) else there


def _optional(field: NestedField) -> NestedField:
    """Also one that somebody else added, or made required: bad rows have anything."""
    return field.model_copy(update={"required": False}) if field.required else field


def _fits(there: IcebergType, wanted: IcebergType) -> bool:
    """Whether a column of one type may become one that takes values of the other."""
    match there, wanted:
        case StructType(), StructType():
            return True
        case ListType(), ListType():
            return _fits(there.element_type, wanted.element_type)
        case MapType(), MapType():
            return _fits(there.key_type, wanted.key_type) and _fits(there.value_type, wanted.value_type)
        case _:
            return there == wanted or widens(there, wanted) or widens(wanted, there)


def _free_name(field: NestedField, others: Iterable[NestedField]) -> str:
    """Its own, unless another has it: icemirror's, or that of a field that went."""
    taken = {one.name.casefold() for one in others}
    name = field.name
    while name.casefold() in taken:
        name = f"{name}_{field.field_id}"
    return name
