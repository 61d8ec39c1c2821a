"""The columns that a mirror has beyond those of its changelog: the settings `metadata_columns` and `delete_mode`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IcebergType, NestedField, StringType, TimestamptzType

from icemirror.errors import Invalid
from icemirror.settings import TableSettings

SYNCED_AT, SOURCE_SEQUENCE, CREATED_AT = "synced_at", "source_sequence", "created_at"
DELETED = "deleted"
_KINDS: dict[str, IcebergType] = {
    SYNCED_AT: TimestamptzType(),
    SOURCE_SEQUENCE: StringType(),
    CREATED_AT: TimestamptzType(),
    DELETED: BooleanType(),
}


@dataclass(frozen=True)
class OwnColumns:
    """All columns, the mirror's own ones last; which those are; in words what differs, and what is refused."""

    fields: tuple[NestedField, ...]
    ids: Mapping[str, int]
    remarks: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def own_names(settings: TableSettings) -> dict[str, str]:
    """What the wanted columns are → their names."""
    flag = {DELETED: settings.deleted_column} if settings.delete_mode == "soft" else {}
    named = {**settings.metadata_columns.named, **flag}
    lower = settings.name_case == "lower"
    return {role: name.lower() if lower else name for role, name in named.items()}


def arrange_own(
    fields: Sequence[NestedField],
    names: Mapping[str, str],
    known: Mapping[str, int],
    last_id: int,
    pinned: frozenset[int],
) -> OwnColumns:
    """The columns with those of these names; `known`: field ids of those that are there, `pinned`: what cannot go."""
    if not names and not known:
        return OwnColumns(tuple(fields), {})
    there = {field.field_id: field for field in fields}
    others = [field for field in fields if field.field_id not in known.values()]
    taken = {field.name for field in others}
    own: list[NestedField] = []
    ids: dict[str, int] = {}
    remarks: list[str] = []
    refused = [
        f"{_told_by(role, name)}, but the changelog, or a dropped column, has a column of that name"
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
            setting = "delete_mode" if role == DELETED else "metadata_columns"
            remarks.append(f"new column {names[role]} ({setting})")
        else:
            own.append(old if old.name == names[role] else old.model_copy(update={"name": names[role]}))
        ids[role] = own[-1].field_id
    return OwnColumns((*others, *own), ids, tuple(remarks), tuple(refused))


def flag_of(settings: TableSettings, table: Schema) -> dict[str, int]:
    """The column of a table that becomes the mirror in which deleted rows are flagged already, if it has one."""
    if settings.delete_mode != "soft":
        return {}
    found = {field.name: field for field in table.fields}.get(own_names(settings)[DELETED])
    if found is None:
        return {}
    if not isinstance(found.field_type, BooleanType):
        raise Invalid(
            f"{settings.name}: {_told_by(DELETED, found.name)}, but the table has a column of that name and of type "
            f"{found.field_type}, not boolean. Give the flag another name, or drop the column."
        )
    return {DELETED: found.field_id}


def _told_by(role: str, name: str) -> str:
    if role == DELETED:
        return f"delete_mode: soft flags rows in column {name} (deleted_column gives it another name)"
    return f"metadata_columns names {role} {name}"
