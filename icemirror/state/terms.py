"""What the configuration says of a table, as its row keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icemirror.state.events import Terms

if TYPE_CHECKING:
    from icemirror.settings import TableSettings


def terms_of(table: TableSettings) -> Terms:
    """What the row of a table keeps of its settings."""
    return Terms(table.group, table.min_interval)
