"""Checks a change of `delete_mode` for an existing mirror or stage."""

from __future__ import annotations

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.columns.added_columns import DELETED_FLAG
from spark_job.iceberg.merged_schema import known_metadata_columns
from spark_job.iceberg.mirror import Mirror


def require_same_delete_mode(table_settings: TableSettings, mirror: Mirror | None) -> None:
    """Refuse hard deletes for a mirror that may have flagged rows: readers would see them as live rows."""
    if (conflict := delete_mode_conflict(table_settings, mirror)) is not None:
        raise Invalid(conflict)


def delete_mode_conflict(table_settings: TableSettings, mirror: Mirror | None) -> str | None:
    """Return why a mirror with soft deletes cannot continue with hard deletes; None if it can."""
    if table_settings.delete_mode == "soft" or mirror is None or not mirror.root or not mirror.root.live_rows:
        return None
    if DELETED_FLAG not in known_metadata_columns(mirror.table.metadata):
        return None
    return (
        f"{table_settings.name}: was merged with delete_mode: soft, so it has rows that are flagged as deleted; "
        "without the flag readers would see them as live rows. Nothing was merged. Run `icemirror replay --full`, "
        "which rebuilds it without them; or set delete_mode to soft again."
    )


def has_hard_deletes(table_settings: TableSettings, mirror: Mirror) -> bool:
    """Return whether a stage was built with hard deletes although the settings require soft ones."""
    return (
        table_settings.delete_mode == "soft"
        and mirror.root is not None
        and bool(mirror.root.segments)
        and DELETED_FLAG not in known_metadata_columns(mirror.table.metadata)
    )
