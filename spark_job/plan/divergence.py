"""A mirror that cannot continue from its cursor, and what to do by its settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from icemirror.errors import Invalid, with_table_name
from icemirror.settings import TableSettings


class DivergenceCause(StrEnum):
    """Why the mirror cannot continue from its cursor."""

    CHANGELOG_RECREATED = (
        "changelog-recreated"  # another table of the same name: how TRUNCATE and re-sync arrive
    )
    CURSOR_EXPIRED = "cursor-expired"  # the changelog's history does not reach back to the cursor
    SOURCE_TRUNCATED = "source-truncated"  # an event reports a truncation of the source


@dataclass(frozen=True)
class Diverged:
    """A mirror that needs a rebuild to match its changelog."""

    table: TableSettings
    cause: DivergenceCause
    message: str

    @property
    def rebuild_allowed(self) -> bool:
        """Whether the policy of the table is to rebuild it without a request."""
        if self.cause is DivergenceCause.CURSOR_EXPIRED:
            return self.table.on_expired_cursor == "rebuild"
        return self.table.on_truncate == "rebuild"

    @property
    def reason(self) -> str:
        """What happened and what to do, with the commands ready to copy."""
        return with_table_name(self.message, self.table.name)

    @property
    def error(self) -> Invalid:
        """The error of a table whose policy is to stop."""
        return Invalid(self.reason)
