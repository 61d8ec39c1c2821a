"""From a catalog's properties to the way of asking it."""

from __future__ import annotations

from collections.abc import Mapping

from icemirror.catalog_name import catalog_name
from icemirror.errors import BadConfig
from trigger.heads.source import HeadSource

_TYPE_BY_SCHEME = {"http": "rest", "https": "rest", "sqlite": "sql", "postgresql": "sql", "mysql": "sql"}


def open_source(properties: Mapping[str, str], configured: str | None = None) -> HeadSource:
    """The catalog for PyIceberg's properties; `configured` is its name under `iceberg.catalogs`."""
    name, uri = catalog_name(properties, configured), properties.get("uri", "")
    scheme = uri.partition("://")[0].partition("+")[0]
    match kind := properties.get("type") or _TYPE_BY_SCHEME.get(scheme, "unknown"):
        case "sql":
            from trigger.heads.sql import open_sql

            return open_sql(uri, name)
        case "rest":
            from trigger.heads.rest import RestHeads

            if properties.get("rest.sigv4-enabled", "false").lower() == "true":
                raise BadConfig(f"catalog {name}: the trigger does not sign requests; use type: glue")
            return RestHeads(properties)
        case "glue":
            from trigger.heads.glue import open_glue

            return open_glue(properties)
        case _:
            raise BadConfig(
                f"catalog {name}: the trigger cannot ask a catalog of type {kind}, only rest, sql and glue; "
                "run `icemirror merge` on a schedule instead"
            )
