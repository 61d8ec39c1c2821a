"""Columns that a mirror has in addition to the changelog's: the settings `metadata_columns` and `delete_mode`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IcebergType, NestedField, StringType, TimestamptzType

from icemirror.errors import Invalid
from icemirror.settings import TableSettings

SYNCED_AT, SOURCE_SEQUENCE, CREATED_AT = "synced_at", "source_sequence", "created_at"
DELETED_FLAG = "deleted"
_TYPES: dict[str, IcebergType] = {
    SYNCED_AT: TimestamptzType(),
    SOURCE_SEQUENCE: StringType(),
    CREATED_AT: TimestamptzType(),
    DELETED_FLAG: BooleanType(),
}


@dataclass(frozen=True)
class AddedColumns:
    """All columns of the mirror; the added ones, for metadata and for soft deletes, come last.

    `ids`: role → field id of the added columns. `remarks` describe the changes, `refused` those that are impossible.
    """

    fields: tuple[NestedField, ...]
    ids: Mapping[str, int]
    remarks: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def added_column_names(table_settings: TableSettings) -> dict[str, str]:
    """Return role → column name for the columns that the settings request."""
    flag = {DELETED_FLAG: table_settings.deleted_column} if table_settings.delete_mode == "soft" else {}
    named = {**table_settings.metadata_columns.named_columns, **flag}
    is_lower_case = table_settings.name_case == "lower"
    return {role: name.lower() if is_lower_case else name for role, name in named.items()}


def added_name_conflict(table_settings: TableSettings, row: Schema) -> str | None:
    """Return why an added column cannot have its name; None if no column of the changelog's rows has it."""
    changelog_names = {field.name for field in row.fields}
    for role, name in added_column_names(table_settings).items():
        if name in changelog_names:
            setting = "deleted_column" if role == DELETED_FLAG else f"metadata_columns.{role}"
            return (
                f"{table_settings.name}: the changelog already has a column {name}, so icemirror cannot add one of "
                f"that name; nothing was merged. Set {setting} to another name. Changelog: "
                f"{table_settings.changelog_id}."
            )
    return None


def arrange_added_columns(
    fields: Sequence[NestedField],
    names: Mapping[str, str],
    existing_ids: Mapping[str, int],
    last_id: int,
    pinned: frozenset[int],
) -> AddedColumns:
    """Return the mirror's columns with the added columns in `names` (role → name).

    `existing_ids`: role → field id of added columns that exist. `pinned`: field ids that cannot be dropped.
    """
    if not names and not existing_ids:
        return AddedColumns(tuple(fields), {})
    fields_by_id = {field.field_id: field for field in fields}
    changelog_fields = [field for field in fields if field.field_id not in existing_ids.values()]
    changelog_names = {field.name for field in changelog_fields}
    added: list[NestedField] = []
    ids: dict[str, int] = {}
    remarks: list[str] = []
    refused = [
        f"{_describe_setting(role, name)}, but the changelog, or a dropped column, has a column of that name"
        for role, name in names.items()
        if name in changelog_names
    ]
    for role, column_type in _TYPES.items():
        existing = fields_by_id.get(existing_ids.get(role, -1))
        if role not in names:
            if existing is not None and existing.field_id in pinned:
                refused.append(
                    f"column {existing.name} is removed by the settings, but the mirror is partitioned or sorted by it"
                )
            continue
        if existing is None:
            last_id += 1
            added.append(NestedField(last_id, names[role], column_type))
            setting = "delete_mode" if role == DELETED_FLAG else "metadata_columns"
            remarks.append(f"new column {names[role]} ({setting})")
        else:
            added.append(
                existing
                if existing.name == names[role]
                else existing.model_copy(update={"name": names[role]})
            )
        ids[role] = added[-1].field_id
    return AddedColumns((*changelog_fields, *added), ids, tuple(remarks), tuple(refused))


def find_deleted_flag(table_settings: TableSettings, table: Schema) -> dict[str, int]:
    """Return role → field id of the flag column that a table already has when it is adopted; empty if it has none."""
    if table_settings.delete_mode != "soft":
        return {}
    flag = {field.name: field for field in table.fields}.get(added_column_names(table_settings)[DELETED_FLAG])
    if flag is None:
        return {}
    if not isinstance(flag.field_type, BooleanType):
        raise Invalid(
            f"{table_settings.name}: {_describe_setting(DELETED_FLAG, flag.name)}, but the table has a column of "
            f"that name and of type {flag.field_type}, not boolean. Give the flag another name, or drop the column."
        )
    return {DELETED_FLAG: flag.field_id}


def _describe_setting(role: str, name: str) -> str:
    if role == DELETED_FLAG:
        return f"delete_mode: soft flags rows in column {name} (change its name with deleted_column)"
    return f"metadata_columns names {role} {name}"
