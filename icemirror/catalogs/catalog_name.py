"""The name under which a catalog is loaded. A SQL catalog stores it in every row, so trigger and job must agree."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT_CATALOG = "icemirror"
"""Name of `iceberg.catalog`; catalogs under `iceberg.catalogs` have their key as name."""

NAME_PROPERTY = "name"
"""A catalog property that overrides the name, for databases whose rows have another one."""


def catalog_name(properties: Mapping[str, str], configured: str | None = None) -> str:
    """Return the catalog's name: its `name` property, else its name in the configuration, else the default."""
    return properties.get(NAME_PROPERTY) or configured or DEFAULT_CATALOG


def without_name(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the other properties, for `load_catalog(catalog_name(p, n), **without_name(p))`."""
    return {key: value for key, value in properties.items() if key != NAME_PROPERTY}
