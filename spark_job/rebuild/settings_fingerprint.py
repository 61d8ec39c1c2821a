"""A fingerprint of the settings that decide which rows a mirror has: a rebuild uses the same ones throughout."""

from __future__ import annotations

from hashlib import sha256

from icemirror.settings import TableSettings

_ROW_SETTINGS = {
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


def fingerprint_settings(table_settings: TableSettings) -> str:
    """Return a stable hash of the settings that decide which rows a mirror has."""
    return sha256(table_settings.model_dump_json(include=_ROW_SETTINGS).encode()).hexdigest()[:32]
