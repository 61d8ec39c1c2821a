"""What a change of `delete_mode` means for a mirror that is there, or in the making."""

from __future__ import annotations

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.columns.own_columns import DELETED
from spark_job.iceberg.mirror import Mirror
from spark_job.schema_changes.evolution import known_own


def require_unflagged(settings: TableSettings, mirror: Mirror | None) -> None:
    """Refuses to go on without the flag where there are rows that may have it: readers would take them for live."""
    if (why := flags_forgotten(settings, mirror)) is not None:
        raise Invalid(why)


def flags_forgotten(settings: TableSettings, mirror: Mirror | None) -> str | None:
    """Why a mirror that flags its deleted rows cannot be merged on with deletes that remove them."""
    if settings.delete_mode == "soft" or mirror is None or not mirror.root or not mirror.root.live_rows:
        return None
    if DELETED not in known_own(mirror.table.metadata):
        return None
    return (
        f"{settings.name}: was merged with delete_mode: soft, so it has rows that are flagged as deleted, and without "
        "the flag they would look like all others; nothing was merged. Ask for `icemirror replay --full`, which builds "
        "it anew without them; or set delete_mode to soft again."
    )


def lacks_flagged(settings: TableSettings, mirror: Mirror) -> bool:
    """Whether rows were deleted for good in what was built so far, although they shall be flagged."""
    return (
        settings.delete_mode == "soft"
        and mirror.root is not None
        and bool(mirror.root.segments)
        and DELETED not in known_own(mirror.table.metadata)
    )
