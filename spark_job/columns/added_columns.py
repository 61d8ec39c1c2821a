"""Columns that a mirror has in addition to the changelog's: the settings `metadata_columns` and `delete_mode`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IcebergType, NestedField, StringType, TimestamptzType

from icemirror.errors import Invalid
from icemirror.settings import TableSettings

SYNCED_AT, SOURCE_SEQUENCE, CREATED_AT = "synced_at", "source_sequence", "created_at"
DELETED = "deleted"
_TYPES: dict[str, IcebergType] = {
    SYNCED_AT: TimestamptzType(),
    SOURCE_SEQUENCE: StringType(),
    CREATED_AT: TimestamptzType(),
    DELETED: BooleanType(),
}


@dataclass(frozen=True)
class AddedColumns:
    """All columns of the mirror, the added ones last.

    `ids`: role → field id of the added columns. `remarks` describe the changes, `refused` those that are impossible.
    """

    fields: tuple[NestedField, ...]
    ids: Mapping[str, int]
    remarks: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def added_column_names(settings: TableSettings) -> dict[str, str]:
    """Return role → column name for the columns that the settings request."""
    flag = {DELETED: settings.deleted_column} if settings.delete_mode == "soft" else {}
    named = {**settings.metadata_columns.named, **flag}
    lower = settings.name_case == "lower"
    return {role: name.lower() if lower else name for role, name in named.items()}


def added_name_conflict(settings: TableSettings, row: Schema) -> str | None:
    """Return why an added column cannot have its name; None if no column of the changelog's rows has it."""
    taken = {field.name for field in row.fields}
    for role, name in added_column_names(settings).items():
        if name in taken:
            setting = "deleted_column" if role == DELETED else f"metadata_columns.{role}"
            return (
                f"{settings.name}: the changelog already has a column {name}, so icemirror cannot add one of that "
                f"name; nothing was merged. Set {setting} to another name. Changelog: {settings.changelog_id}."
            )
    return None


def arrange_added_columns(
    fields: Sequence[NestedField],
    names: Mapping[str, str],
    known: Mapping[str, int],
    last_id: int,
    pinned: frozenset[int],
) -> AddedColumns:
    """Return the mirror's columns with the added columns in `names` (role → name).

    `known`: role → field id of added columns that exist. `pinned`: field ids that cannot be dropped.
    """
    if not names and not known:
        return AddedColumns(tuple(fields), {})
    existing = {field.field_id: field for field in fields}
    others = [field for field in fields if field.field_id not in known.values()]
    taken = {field.name for field in others}
    added: list[NestedField] = []
    ids: dict[str, int] = {}
    remarks: list[str] = []
    refused = [
        f"{_describe_setting(role, name)}, but the changelog, or a dropped column, has a column of that name"
        for role, name in names.items()
        if name in taken
    ]
    for role, kind in _TYPES.items():
        old = existing.get(known.get(role, -1))
        if role not in names:
            if old is not None and old.field_id in pinned:
                refused.append(
                    f"column {old.name} is removed by the settings, but the mirror is partitioned or sorted by it"
                )
            continue
        if old is None:
            last_id += 1
            added.append(NestedField(last_id, names[role], kind))
            setting = "delete_mode" if role == DELETED else "metadata_columns"
            remarks.append(f"new column {names[role]} ({setting})")
        else:
            added.append(old if old.name == names[role] else old.model_copy(update={"name": names[role]}))
        ids[role] = added[-1].field_id
    return AddedColumns((*others, *added), ids, tuple(remarks), tuple(refused))


def find_deleted_flag(settings: TableSettings, table: Schema) -> dict[str, int]:
    """Return role → field id of the flag column that a table already has when it is adopted; empty if it has none."""
    if settings.delete_mode != "soft":
        return {}
    found = {field.name: field for field in table.fields}.get(added_column_names(settings)[DELETED])
    if found is None:
        return {}
    if not isinstance(found.field_type, BooleanType):
        raise Invalid(
            f"{settings.name}: {_describe_setting(DELETED, found.name)}, but the table has a column of that name and "
            f"of type {found.field_type}, not boolean. Give the flag another name, or drop the column."
        )
    return {DELETED: found.field_id}


def _describe_setting(role: str, name: str) -> str:
    if role == DELETED:
        return f"delete_mode: soft flags rows in column {name} (change its name with deleted_column)"
    return f"metadata_columns names {role} {name}"
