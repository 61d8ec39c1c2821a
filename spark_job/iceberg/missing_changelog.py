"""Errors of changelogs that the catalog does not have."""

from __future__ import annotations

from icemirror.errors import Invalid


class ChangelogNotFound(Invalid):
    """The catalog has no such table."""


class ChangelogDropped(ChangelogNotFound):
    """The changelog was merged before, and its writer may recreate it: wait."""
