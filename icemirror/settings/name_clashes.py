"""Tables of a configuration that would write to the same table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icemirror.settings.tables import TableSettings
from icemirror.tables.table_id import TableId


def mirror_clashes(tables: Sequence[TableSettings]) -> Iterator[tuple[int, str]]:
    """Yield index and problem of tables whose mirror is also the mirror or the changelog of another table."""
    first_by_mirror: dict[str, TableSettings] = {}
    for index, table in enumerate(tables):
        first = first_by_mirror.setdefault(table.name, table)
        if first is not table:
            yield index, f"the mirror {table.name} already has the changelog {first.changelog_id}"
    changelogs = {(table.changelog_id, table.changelog_catalog) for table in tables}
    for index, table in enumerate(tables):
        if not table.append_only and (table.mirror_id, table.mirror_catalog) in changelogs:
            yield index, f"the mirror {table.name} is another table's changelog, so it must be append_only"


def rejects_clashes(tables: Sequence[TableSettings]) -> Iterator[tuple[int, str]]:
    """Yield index and problem of tables whose rejects table is a mirror, a changelog or another rejects table."""
    use_by_table: dict[tuple[TableId, str | None], str] = {}
    for table in tables:
        use_by_table[table.changelog_id, table.changelog_catalog] = "a changelog"
        use_by_table[table.mirror_id, table.mirror_catalog] = "a mirror"
    for index, table in enumerate(tables):
        if table.on_bad_row != "quarantine":
            continue
        rejects_table = (table.rejects_id, table.mirror_catalog)
        if rejects_table in use_by_table:
            use = use_by_table[rejects_table]
            yield (
                index,
                f"the rejects table {table.rejects_id} is already {use}: choose another rejects_table",
            )
        use_by_table[rejects_table] = f"the rejects table of {table.name}"
