"""Which kind of catalog the properties name, and whether the trigger can look at the heads in it."""

from __future__ import annotations

from collections.abc import Mapping

from icemirror.hive_address import NO_KERBEROS, asks_for_kerberos

_KIND_BY_SCHEME = {
    "http": "rest",
    "https": "rest",
    "mysql": "sql",
    "postgresql": "sql",
    "sqlite": "sql",
    "thrift": "hive",
}
_ASKED = ("rest", "sql", "glue", "hive")


def catalog_kind(properties: Mapping[str, str]) -> str:
    """The catalog's `type`, else what its address tells."""
    scheme = properties.get("uri", "").partition("://")[0].partition("+")[0]
    return properties.get("type") or _KIND_BY_SCHEME.get(scheme, "unknown")


def cannot_look(properties: Mapping[str, str]) -> str | None:
    """Why the trigger cannot look at heads in this catalog, which a merge can; None if it can."""
    kind = catalog_kind(properties)
    if kind not in _ASKED:
        return (
            f"the trigger cannot ask a catalog of type {kind}, only rest, sql, glue and hive; "
            "run `icemirror merge` on a schedule instead"
        )
    if kind == "rest" and properties.get("rest.sigv4-enabled", "false").lower() == "true":
        return "the trigger does not sign requests; use type: glue"
    if kind == "hive" and asks_for_kerberos(properties):
        return NO_KERBEROS
    return None
