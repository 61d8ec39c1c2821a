"""The name under which a catalog is loaded: a SQL catalog keeps it in every row, so both sides must agree."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT_CATALOG = "icemirror"
"""The name of `iceberg.catalog`; those under `iceberg.catalogs` go by the name that they have there."""

NAME_PROPERTY = "name"
"""A catalog property that overrides it, for databases whose rows were written under another name."""


def catalog_name(properties: Mapping[str, str], configured: str | None = None) -> str:
    """The catalog's name: its `name` property, else its name in the configuration, else the default."""
    return properties.get(NAME_PROPERTY) or configured or DEFAULT_CATALOG


def without_name(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties to pass on beside it: `load_catalog(catalog_name(p, n), **without_name(p))`."""
    return {key: value for key, value in properties.items() if key != NAME_PROPERTY}
