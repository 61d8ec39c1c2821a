"""A mirror that cannot continue from its cursor, and what its settings say to do then."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from icemirror.errors import Invalid, with_table_name
from icemirror.settings import TableSettings


class Cause(StrEnum):
    """Why the cursor leads nowhere."""

    CHANGELOG_RECREATED = (
        "changelog-recreated"  # another table of the same name: how TRUNCATE and re-sync arrive
    )
    CURSOR_EXPIRED = "cursor-expired"  # the changelog's history does not reach back to the cursor
    SOURCE_TRUNCATED = "source-truncated"  # an event says that all rows of the source were deleted


@dataclass(frozen=True)
class Diverged:
    """A mirror that only a rebuild can bring back in line with its changelog."""

    table: TableSettings
    cause: Cause
    message: str

    @property
    def is_rebuilt(self) -> bool:
        """Whether the policy of the table is to rebuild it without a request."""
        if self.cause is Cause.CURSOR_EXPIRED:
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
