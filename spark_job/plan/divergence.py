"""A mirror that cannot continue from its cursor, and what its settings require then."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from icemirror.errors import Invalid, with_table_name
from icemirror.settings import TableSettings


class DivergenceCause(StrEnum):
    """Why the mirror cannot continue from its cursor."""

    # Another table of the same name: some writers recreate the changelog for TRUNCATE and re-sync.
    CHANGELOG_RECREATED = "changelog-recreated"
    # The changelog's history does not reach back to the cursor.
    CURSOR_EXPIRED = "cursor-expired"
    # An event reports a truncation of the source.
    SOURCE_TRUNCATED = "source-truncated"


@dataclass(frozen=True)
class Diverged:
    """A mirror that needs a rebuild to match its changelog.

    `details`: the message before the table's name is inserted.
    """

    table_settings: TableSettings
    cause: DivergenceCause
    details: str

    @property
    def rebuild_allowed(self) -> bool:
        """Return whether the policy of the table is to rebuild it without a request."""
        if self.cause is DivergenceCause.CURSOR_EXPIRED:
            return self.table_settings.on_expired_cursor == "rebuild"
        return self.table_settings.on_truncate == "rebuild"

    @property
    def message(self) -> str:
        """What happened and what to do, with the table's name in the commands."""
        return with_table_name(self.details, self.table_settings.name)

    @property
    def error(self) -> Invalid:
        """The error of a table whose policy is to stop."""
        return Invalid(self.message)
