"""The tables for bad rows: which ones there are, and names that are taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icemirror.settings.tables import TableSettings
from icemirror.table_id import TableId

Place = tuple[TableId, str | None]


def rejects_clashes(tables: Sequence[TableSettings]) -> Iterator[tuple[int, str]]:
    """Tables whose rejects would go into a mirror, a changelog, or another table's rejects."""
    taken: dict[Place, str] = {}
    for table in tables:
        taken[table.changelog_id, table.changelog_catalog] = "a changelog"
        taken[table.mirror_id, table.mirror_catalog] = "a mirror"
    for at, table in enumerate(tables):
        if table.on_bad_row != "quarantine":
            continue
        place = (table.rejects_id, table.mirror_catalog)
        if place in taken:
            yield (
                at,
                f"bad rows would go into {table.rejects_id}, which is {taken[place]}: name another rejects_table",
            )
        taken[place] = f"for the bad rows of {table.name}"
