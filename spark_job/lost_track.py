"""A mirror that cannot go on from where it stands, and what the settings say to do then."""

from __future__ import annotations

from typing import assert_never

from icemirror.errors import Invalid
from icemirror.settings import TableSettings


class ChangelogMadeAnew(Invalid):
    """The changelog is another table than the one that was merged: this is how TRUNCATE and re-sync arrive."""


class CursorExpired(Invalid):
    """The history of the changelog does not reach back to what was merged last."""


class SourceTruncated(Invalid):
    """An event says that all rows of the source are gone, and the mirror has not followed that yet."""


class NoChangelog(Invalid):
    """The catalog has no such table."""


class ChangelogAway(NoChangelog):
    """It was there before, and its writer may be about to make it anew: whoever can wait looks again."""


LostTrack = ChangelogMadeAnew | CursorExpired | SourceTruncated


def is_rebuilt(table: TableSettings, lost: LostTrack) -> bool:
    """Whether the mirror is then built anew without anybody asking."""
    match lost:
        case ChangelogMadeAnew() | SourceTruncated():
            return table.on_truncate == "rebuild"
        case CursorExpired():
            return table.on_expired_cursor == "rebuild"
    assert_never(lost)
