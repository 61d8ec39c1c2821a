"""The kind of a catalog, and whether the trigger can read heads from it."""

from __future__ import annotations

from collections.abc import Mapping

from icemirror.catalogs.hive_address import NO_KERBEROS, requires_kerberos

_KIND_BY_SCHEME = {
    "http": "rest",
    "https": "rest",
    "mysql": "sql",
    "postgresql": "sql",
    "sqlite": "sql",
    "thrift": "hive",
}
_SUPPORTED_BY_TRIGGER = ("rest", "sql", "glue", "hive")


def catalog_kind(properties: Mapping[str, str]) -> str:
    """Return the catalog's `type`, or the kind that its `uri` implies."""
    scheme = properties.get("uri", "").partition("://")[0].partition("+")[0]
    return properties.get("type") or _KIND_BY_SCHEME.get(scheme, "unknown")


def unsupported_by_trigger(properties: Mapping[str, str]) -> str | None:
    """Return why the trigger cannot read heads from this catalog, although a merge can; None if it can."""
    kind = catalog_kind(properties)
    if kind not in _SUPPORTED_BY_TRIGGER:
        return (
            f"the trigger does not support catalogs of type {kind}, only rest, sql, glue and hive; "
            "run `icemirror merge` on a schedule instead"
        )
    if kind == "rest" and properties.get("rest.sigv4-enabled", "false").lower() == "true":
        return "the trigger does not sign requests; use type: glue"
    if kind == "hive" and requires_kerberos(properties):
        return NO_KERBEROS
    return None
