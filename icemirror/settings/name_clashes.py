"""Tables of a configuration that would write to the same table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icemirror.settings.tables import TableSettings
from icemirror.tables.table_id import TableId


def mirror_clashes(tables: Sequence[TableSettings]) -> Iterator[tuple[int, str]]:
    """Yield tables whose mirror is also the mirror or the changelog of another table."""
    by_mirror: dict[str, TableSettings] = {}
    for at, table in enumerate(tables):
        other = by_mirror.setdefault(table.name, table)
        if other is not table:
            yield at, f"the mirror {table.name} already has the changelog {other.changelog_id}"
    changelogs = {(table.changelog_id, table.changelog_catalog) for table in tables}
    for at, table in enumerate(tables):
        if not table.append_only and (table.mirror_id, table.mirror_catalog) in changelogs:
            yield at, f"the mirror {table.name} is another table's changelog, so it must be append_only"


def rejects_clashes(tables: Sequence[TableSettings]) -> Iterator[tuple[int, str]]:
    """Yield tables whose rejects table is a mirror, a changelog, or another table's rejects table."""
    taken: dict[tuple[TableId, str | None], str] = {}
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
                f"the rejects table {table.rejects_id} is already {taken[place]}: choose another rejects_table",
            )
        taken[place] = f"the rejects table of {table.name}"
