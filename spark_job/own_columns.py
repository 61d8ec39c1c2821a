"""The columns that a mirror has beyond those of its changelog: the setting `metadata_columns`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.types import IcebergType, NestedField, StringType, TimestamptzType

from icemirror.settings.table_options import MetadataColumns

SYNCED_AT, SOURCE_SEQUENCE, CREATED_AT = "synced_at", "source_sequence", "created_at"
_KINDS: dict[str, IcebergType] = {
    SYNCED_AT: TimestamptzType(),
    SOURCE_SEQUENCE: StringType(),
    CREATED_AT: TimestamptzType(),
}


@dataclass(frozen=True)
class OwnColumns:
    """All columns, the mirror's own ones last; which those are; in words what differs, and what is refused."""

    fields: tuple[NestedField, ...]
    ids: Mapping[str, int]
    remarks: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def arrange_own(
    fields: Sequence[NestedField],
    wanted: MetadataColumns,
    known: Mapping[str, int],
    last_id: int,
    pinned: frozenset[int],
) -> OwnColumns:
    """The columns with those that are wanted; `known`: field ids of those that are there, `pinned`: what cannot go."""
    names = {role: name for role in _KINDS if (name := getattr(wanted, role)) is not None}
    if not names and not known:
        return OwnColumns(tuple(fields), {})
    there = {field.field_id: field for field in fields}
    others = [field for field in fields if field.field_id not in known.values()]
    taken = {field.name for field in others}
    own: list[NestedField] = []
    ids: dict[str, int] = {}
    remarks: list[str] = []
    refused = [
        f"metadata_columns names {role} {name}, but the changelog, or a dropped column, has a column of that name"
        for role, name in names.items()
        if name in taken
    ]
    for role, kind in _KINDS.items():
        old = there.get(known.get(role, -1))
        if role not in names:
            if old is not None and old.field_id in pinned:
                refused.append(
                    f"column {old.name} is left out, but the mirror is partitioned or sorted by it"
                )
            continue
        if old is None:
            last_id += 1
            own.append(NestedField(last_id, names[role], kind))
            remarks.append(f"new column {names[role]} (metadata_columns)")
        else:
            own.append(old if old.name == names[role] else old.model_copy(update={"name": names[role]}))
        ids[role] = own[-1].field_id
    return OwnColumns((*others, *own), ids, tuple(remarks), tuple(refused))
