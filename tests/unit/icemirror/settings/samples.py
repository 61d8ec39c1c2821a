"""A minimal configuration, and the types of the fixtures that load one."""

from __future__ import annotations

from collections.abc import Callable

from icemirror.settings import Settings

Load = Callable[..., Settings]
Refuse = Callable[..., list[str]]

CATALOG = "iceberg: {catalog: {type: sql, uri: sqlite:////data/c.db}}\n"
TABLES = "tables: [{changelog: raw.orders_changelog, mirror: shop.orders}]\n"
