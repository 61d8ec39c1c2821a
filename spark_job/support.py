"""What this version can do. A setting of a feature that is to come is refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from icemirror.errors import Invalid
from icemirror.settings import TableSettings

_PROFILES = ("supabase-etl", "generic")


def require_supported(settings: TableSettings) -> None:
    """Refuses settings whose feature does not exist yet."""
    unsupported = list(_unsupported(settings))
    if unsupported:
        raise Invalid(f"{settings.name}: not supported by this version: {', '.join(unsupported)}")


def _unsupported(settings: TableSettings) -> Iterator[str]:
    if settings.profile not in _PROFILES:
        yield f"profile {settings.profile} (use generic with operation_column, operation_values and sequence_column)"
    if settings.append_only:
        yield "append_only"
    if settings.on_expired_cursor != "stop":
        yield f"on_expired_cursor: {settings.on_expired_cursor}"
    if settings.on_bad_row != "stop":
        yield f"on_bad_row: {settings.on_bad_row}"
    if settings.delete_mode != "hard":
        yield f"delete_mode: {settings.delete_mode}"
    if settings.columns.include is not None or settings.columns.exclude:
        yield "columns"
    if any(settings.metadata_columns.model_dump().values()):
        yield "metadata_columns"
    if settings.name_case != "preserve":
        yield f"name_case: {settings.name_case}"
