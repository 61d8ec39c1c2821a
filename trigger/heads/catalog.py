"""The few questions that the trigger asks a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from icemirror.catalog_name import catalog_name
from icemirror.errors import BadConfig
from icemirror.table_id import TableId


class HeadCatalog(Protocol):
    """A catalog, seen through head pointers. Every call may raise `Transient` or `Invalid`."""

    def head(self, table: TableId) -> str | None:
        """The location of the table's current metadata; None where there is no such table."""

    def list_tables(self, namespace: str) -> list[str]:
        """The names of the tables in a dotted namespace; empty where there is no such namespace."""


def open_head_catalog(properties: Mapping[str, str], configured: str | None) -> HeadCatalog:
    """The catalog for PyIceberg's properties; `configured` is its name under `iceberg.catalogs`."""
    name = catalog_name(properties, configured)
    match kind := properties.get("type", "rest"):
        case "sql":
            from trigger.heads.sql import open_sql

            return open_sql(properties.get("uri", ""), name)
        case "rest":
            from trigger.heads.rest import RestHeads

            return RestHeads(properties)
        case "glue":
            from trigger.heads.glue import GlueHeads

            return GlueHeads(properties)
        case _:
            raise BadConfig(
                f"catalog {name}: the trigger cannot ask a catalog of type {kind}; use rest, sql or glue"
            )
