"""A configuration, catalog and state store for the trigger's commands."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import SlotRow, TableRow
from icemirror.stores.sqlite import SqliteStore

CONFIG = """
iceberg: {{catalog: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/wh"}}}}
tables:
  - {{namespace: shop, changelog_table: orders_changelog, mirror_table: orders, primary_keys: [id]}}
  - {{namespace: shop, changelog_table: items_changelog, mirror_table: items, primary_keys: [id]}}
trigger:
  state: {{type: sqlite, path: "{folder}/state/state.db"}}
  poll_interval: 10ms
  quiet_period: 10ms
telemetry: {{prometheus: null, log_format: text}}
"""


def create_catalog(folder: Path, *changelogs: str) -> None:
    with closing(sqlite3.connect(folder / "catalog.db")) as catalog:
        catalog.execute(
            "CREATE TABLE iceberg_tables "
            "(catalog_name TEXT, table_namespace TEXT, table_name TEXT, metadata_location TEXT)"
        )
        for name in changelogs:
            values = ("icemirror", "shop", name, "m1")
            catalog.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?)", values)
        catalog.commit()


def put(folder: Path, *rows: TableRow | SlotRow) -> None:
    with SqliteStore(folder / "state" / "state.db") as store:
        for row in rows:
            assert store.compare_and_set(row)


def tables(folder: Path) -> Mapping[str, TableRow]:
    with SqliteStore(folder / "state" / "state.db") as store:
        return store.load(ALL_ROWS).tables


def merged(name: str) -> TableRow:
    return TableRow(name, dirty=1, covered=1, noticed_head="m1", merged_head="m1")
