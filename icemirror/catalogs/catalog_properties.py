"""Name and type of a catalog from its properties, and whether the trigger can read heads from it."""

from __future__ import annotations

from collections.abc import Mapping

from icemirror.catalogs.hive_address import NO_KERBEROS, requires_kerberos

DEFAULT_CATALOG = "icemirror"
"""Name of `iceberg.catalog`; catalogs under `iceberg.catalogs` have their key as name."""

NAME_PROPERTY = "name"
"""A catalog property that overrides the name, for databases whose rows have another one."""

_TYPE_BY_SCHEME = {
    "http": "rest",
    "https": "rest",
    "mysql": "sql",
    "postgresql": "sql",
    "sqlite": "sql",
    "thrift": "hive",
}
_SUPPORTED_BY_TRIGGER = ("rest", "sql", "glue", "hive")


def catalog_name(properties: Mapping[str, str], configured_name: str | None = None) -> str:
    """Return the catalog's name: its `name` property, else its name in the configuration, else the default.

    A SQL catalog stores its name in every row, so trigger and job must agree on it.
    """
    return properties.get(NAME_PROPERTY) or configured_name or DEFAULT_CATALOG


def without_name(properties: Mapping[str, str]) -> dict[str, str]:
    """Return all properties except the name, for `load_catalog(catalog_name(p, n), **without_name(p))`."""
    return {key: value for key, value in properties.items() if key != NAME_PROPERTY}


def catalog_type(properties: Mapping[str, str]) -> str:
    """Return the catalog's `type`, or the type that its `uri` implies."""
    scheme = properties.get("uri", "").partition("://")[0].partition("+")[0]
    return properties.get("type") or _TYPE_BY_SCHEME.get(scheme, "unknown")


def unsupported_by_trigger(properties: Mapping[str, str]) -> str | None:
    """Return why the trigger cannot read heads from this catalog, although a merge can; None if it can."""
    type_ = catalog_type(properties)
    if type_ not in _SUPPORTED_BY_TRIGGER:
        return (
            f"the trigger does not support catalogs of type {type_}, only rest, sql, glue and hive; "
            "run `icemirror merge` on a schedule instead"
        )
    if type_ == "rest" and properties.get("rest.sigv4-enabled", "false").lower() == "true":
        return "the trigger does not sign requests; use type: glue"
    if type_ == "hive" and requires_kerberos(properties):
        return NO_KERBEROS
    return None
