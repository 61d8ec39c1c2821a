"""A catalog as a source of head pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from icemirror.catalogs.catalog_properties import catalog_name, catalog_type, unsupported_by_trigger
from icemirror.errors import BadConfig, IcemirrorError, Invalid
from icemirror.tables.table_id import TableId

HeadResult = str | IcemirrorError
"""The head of a table, as the location of its current metadata; or why it is not known."""


class HeadSource(Protocol):
    """A catalog's head pointers. Every call raises `Transient` if the catalog does not respond."""

    def load_heads(self, tables: Sequence[TableId]) -> Mapping[TableId, HeadResult]:
        """Return the head of each of these tables; a problem with one table is that table's value."""

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        """Return the names of the tables in a dotted namespace; none if the namespace does not exist."""

    def close(self) -> None:
        """Release connections and threads."""


def open_head_source(properties: Mapping[str, str], configured_name: str | None = None) -> HeadSource:
    """Open the catalog with these PyIceberg properties; `configured_name`: its name under `iceberg.catalogs`."""
    name = catalog_name(properties, configured_name)
    if (reason := unsupported_by_trigger(properties)) is not None:
        raise BadConfig(f"catalog {name}: {reason}")
    match kind := catalog_type(properties):
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


def missing_changelog(table: TableId, catalog: str) -> IcemirrorError:
    """Return the error for a changelog that the catalog does not have."""
    return Invalid(
        f"there is no changelog {table} in {catalog}: correct its name, or wait until its writer has created it"
    )
