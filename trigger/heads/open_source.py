"""From a catalog's properties to the way of asking it."""

from __future__ import annotations

from collections.abc import Mapping

from icemirror.catalog_kind import cannot_look, catalog_kind
from icemirror.catalog_name import catalog_name
from icemirror.errors import BadConfig
from trigger.heads.source import HeadSource


def open_source(properties: Mapping[str, str], configured: str | None = None) -> HeadSource:
    """The catalog for PyIceberg's properties; `configured` is its name under `iceberg.catalogs`."""
    name = catalog_name(properties, configured)
    if (why := cannot_look(properties)) is not None:
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
            raise AssertionError(f"nobody opens a catalog of type {kind}")
