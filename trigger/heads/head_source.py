"""A catalog as a source of head pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from icemirror.catalogs.catalog_kind import catalog_kind, unsupported_by_trigger
from icemirror.catalogs.catalog_name import catalog_name
from icemirror.errors import BadConfig, IcemirrorError, Invalid
from icemirror.tables.table_id import TableId

Head = str | IcemirrorError
"""The location of a table's current metadata, or why it is not known."""


class HeadSource(Protocol):
    """A catalog's head pointers. Every call raises `Transient` if the catalog does not respond."""

    def load_heads(self, tables: Sequence[TableId]) -> Mapping[TableId, Head]:
        """Return the head of every given table; a problem with one table is that table's value."""

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        """Return the names of the tables in a dotted namespace; none if the namespace does not exist."""

    def close(self) -> None:
        """Release connections and threads."""


def open_head_source(properties: Mapping[str, str], configured: str | None = None) -> HeadSource:
    """Open the catalog with these PyIceberg properties; `configured` is its name under `iceberg.catalogs`."""
    name = catalog_name(properties, configured)
    if (why := unsupported_by_trigger(properties)) is not None:
        raise BadConfig(f"catalog {name}: {why}")
    match kind := catalog_kind(properties):
        case "sql":
            from trigger.heads.sql import open_sql

            return open_sql(properties.get("uri", ""), name)
        case "rest":
            from trigger.heads.rest import RestHeads

            return RestHeads(properties)
        case "glue":
            from trigger.heads.glue import open_glue

            return open_glue(properties)
        case "hive":
            from trigger.heads.hive import open_hive

            return open_hive(properties, name)
        case _:
            raise AssertionError(f"no head source for a catalog of type {kind}")


def missing_changelog(table: TableId, where: str) -> IcemirrorError:
    """Return the error for a changelog that the catalog does not have."""
    return Invalid(
        f"there is no changelog {table} in {where}: correct its name, or wait until its writer has created it"
    )
