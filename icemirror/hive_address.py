"""What the properties of a Hive catalog say of its metastores, and of who asks them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

EXPECTED = "write thrift://host:9083, and several with commas between them"
NO_KERBEROS = (
    "the trigger has no Kerberos ticket to show (hive.kerberos-authentication); "
    "run `icemirror merge` on a schedule instead"
)
_ON = ("y", "yes", "t", "true", "on", "1")  # as PyIceberg reads them


def metastores(uri: str) -> list[tuple[str, int]] | None:
    """Host and port of each metastore; None where one of them cannot be read."""
    found: list[tuple[str, int]] = []
    for one in uri.split(","):
        try:
            parts = urlsplit(one.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            return None
        if parts.scheme != "thrift" or not host or not port or parts.path not in ("", "/"):
            return None
        found.append((host, port))
    return found


def user_and_group(ugi: str) -> tuple[str, str] | None:
    """Of the property `ugi`, user:group; None where it says anything else."""
    user, _, group = ugi.partition(":")
    return (user, group) if user and group and ":" not in group else None


def asks_for_kerberos(properties: Mapping[str, str]) -> bool:
    """Does the metastore want a ticket?"""
    return properties.get("hive.kerberos-authentication", "false").lower() in _ON
