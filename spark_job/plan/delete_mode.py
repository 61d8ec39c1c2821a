"""Check a change of `delete_mode` for an existing mirror or stage."""

from __future__ import annotations

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.columns.added_columns import DELETED
from spark_job.iceberg.mirror import Mirror
from spark_job.plan.schema_evolution import known_metadata_columns


def require_same_delete_mode(settings: TableSettings, mirror: Mirror | None) -> None:
    """Refuse hard deletes for a mirror that may have flagged rows: readers would see them as live rows."""
    if (why := delete_mode_conflict(settings, mirror)) is not None:
        raise Invalid(why)


def delete_mode_conflict(settings: TableSettings, mirror: Mirror | None) -> str | None:
    """Return why a mirror with soft deletes cannot continue with hard deletes; None if it can."""
    if settings.delete_mode == "soft" or mirror is None or not mirror.root or not mirror.root.live_rows:
        return None
    if DELETED not in known_metadata_columns(mirror.table.metadata):
        return None
    return (
        f"{settings.name}: was merged with delete_mode: soft, so it has rows that are flagged as deleted; without the "
        "flag readers would see them as live rows. Nothing was merged. Run `icemirror replay --full`, which rebuilds "
        "it without them; or set delete_mode to soft again."
    )


def lacks_soft_deletes(settings: TableSettings, mirror: Mirror) -> bool:
    """Return whether a stage has deleted rows for good although the settings require soft deletes."""
    return (
        settings.delete_mode == "soft"
        and mirror.root is not None
        and bool(mirror.root.segments)
        and DELETED not in known_metadata_columns(mirror.table.metadata)
    )
