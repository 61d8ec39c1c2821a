"""Errors of changelogs that cannot be read on from a cursor."""

from __future__ import annotations

from icemirror.errors import Invalid


class CursorExpired(Invalid):
    """The changelog's history does not reach back to the cursor."""


class SourceTruncated(Invalid):
    """An event says that all rows of the source were deleted, and the mirror has not followed that yet."""


class NoChangelog(Invalid):
    """The catalog has no such table."""


class ChangelogMissing(NoChangelog):
    """The changelog existed before, and its writer may be about to recreate it: wait."""
