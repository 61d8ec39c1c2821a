"""Metastore addresses, user and authentication from the properties of a Hive catalog."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

EXPECTED_URI = "write thrift://host:9083, several separated by commas"
NO_KERBEROS = (
    "the trigger does not support Kerberos (hive.kerberos-authentication); "
    "run `icemirror merge` on a schedule instead"
)
_TRUE_VALUES = ("y", "yes", "t", "true", "on", "1")  # as PyIceberg reads them


def parse_metastores(uri: str) -> list[tuple[str, int]] | None:
    """Return host and port of each metastore; None if the uri is invalid."""
    addresses: list[tuple[str, int]] = []
    for address in uri.split(","):
        try:
            url = urlsplit(address.strip())
            host, port = url.hostname, url.port
        except ValueError:
            return None
        if url.scheme != "thrift" or not host or not port or url.path not in ("", "/"):
            return None
        addresses.append((host, port))
    return addresses


def user_and_group(ugi: str) -> tuple[str, str] | None:
    """Return user and group from the property `ugi` (user:group); None if it is invalid."""
    user, _, group = ugi.partition(":")
    return (user, group) if user and group and ":" not in group else None


def requires_kerberos(properties: Mapping[str, str]) -> bool:
    """Return whether the metastore requires Kerberos."""
    return properties.get("hive.kerberos-authentication", "false").lower() in _TRUE_VALUES
