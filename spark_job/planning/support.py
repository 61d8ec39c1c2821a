"""Refuses settings of a feature that is to come, by name."""

from __future__ import annotations

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from icemirror.unsupported import of_table


def require_supported(settings: TableSettings) -> None:
    """Refuses settings whose feature does not exist yet."""
    unsupported = list(of_table(settings))
    if unsupported:
        raise Invalid(f"{settings.name}: not supported by this version: {', '.join(unsupported)}")


def require_key(settings: TableSettings, otherwise: str) -> None:
    """Refuses what needs a key, of a table without one; `otherwise` says what that would come to."""
    if settings.append_only:
        raise Invalid(f"{settings.name}: is append_only, {otherwise}")
