"""The settings that decide which rows a merge makes of a changelog: a rebuild is done with one and the same."""

from __future__ import annotations

from hashlib import sha256

from icemirror.settings import TableSettings

_DECIDING = {
    "primary_keys",
    "profile",
    "connector",
    "operation_column",
    "operation_values",
    "upsert_only",
    "delete_column",
    "sequence_column",
    "sequence_format",
    "old_key_columns",
    "unchanged_value",
    "on_missing_value",
    "keep_columns",
    "append_only",
    "on_bad_row",
    "delete_mode",
    "columns",
    "metadata_columns",
}


def made_with(settings: TableSettings) -> str:
    """A mark of them: equal ones have one."""
    return sha256(settings.model_dump_json(include=_DECIDING).encode()).hexdigest()[:32]
