"""What the trigger asks of a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from icemirror.errors import IcemirrorError, Invalid
from icemirror.table_id import TableId

Head = str | IcemirrorError
"""The location of a table's current metadata, or why it is not known."""


class HeadSource(Protocol):
    """A catalog, seen through head pointers. Every call raises `Transient` where nothing answers."""

    def look(self, tables: Sequence[TableId]) -> Mapping[TableId, Head]:
        """The head of every table asked for; what is wrong with one table only stands in its place."""

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        """The names of the tables in a dotted namespace; none where there is no such namespace."""

    def close(self) -> None:
        """Lets go of connections and threads."""


def missing(table: TableId, where: str) -> IcemirrorError:
    """What to say of a changelog that is not there."""
    return Invalid(
        f"there is no changelog {table} in {where}: correct its name, or wait until its writer has created it"
    )
