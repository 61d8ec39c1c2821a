"""Refuses settings that this version does not support."""

from __future__ import annotations

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from icemirror.settings.unsupported import unsupported_options


def require_supported(settings: TableSettings) -> None:
    """Raise if the settings use a feature that does not exist yet."""
    unsupported = list(unsupported_options(settings))
    if unsupported:
        raise Invalid(f"{settings.name}: not supported by this version: {', '.join(unsupported)}")


def require_key(settings: TableSettings, otherwise: str) -> None:
    """Raise if the table has no key; `otherwise` says what would happen without one."""
    if settings.append_only:
        raise Invalid(f"{settings.name}: is append_only, {otherwise}")
