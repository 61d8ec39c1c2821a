"""File access with credentials that a REST catalog lends for a while: fetched anew before they expire.

It travels to the tasks like any other, so that a task which begins late, and the commit after long shards, have
credentials that are still good.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from spark_job.iceberg.open_catalog import open_catalog

# How REST catalogs say when a loan ends, in milliseconds since 1970.
_EXPIRIES = (
    "s3.session-token-expires-at-ms",
    "gcs.oauth2.token-expires-at",
    "adls.sas-token-expires-at-ms",
)
# What is lent. Only some catalogs say for how long.
_LOANS = ("s3.session-token", "s3.access-key-id", "gcs.oauth2.token", "adls.sas-token")
_UNTOLD_SECONDS = 300.0
_MARGIN_SECONDS = 60.0


def is_lent(config: Mapping[str, str]) -> bool:
    """Does a table's configuration bring credentials?"""
    return any(name.startswith(_LOANS) for name in config)


def renew_at(config: Mapping[str, str], now: float) -> float:
    """When to ask again: a minute before the earliest end, earlier if the loan is short."""
    ends = [int(value) / 1000 for name, value in config.items() if name.startswith(_EXPIRIES)]
    if not ends:
        return now + _UNTOLD_SECONDS
    left = max(min(ends) - now, 0.0)
    return now + left - min(_MARGIN_SECONDS, left / 2)


class VendedIO(FileIO):
    """A table's FileIO that asks the catalog again in time."""

    def __init__(self, catalog: str, catalog_properties: Mapping[str, Any], table: Table) -> None:
        super().__init__(table.io.properties)
        self._catalog, self._catalog_properties = catalog, dict(catalog_properties)
        self._identifier: Identifier = table.name()
        self._take(table)

    def new_input(self, location: str) -> InputFile:
        """A file to read."""
        return self.current().new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """A file to write."""
        return self.current().new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Removes a file."""
        self.current().delete(location)

    def current(self) -> FileIO:
        """File access with credentials that are good for a while."""
        if time.time() >= self._renew_at:
            self._take(open_catalog(self._catalog, self._catalog_properties).load_table(self._identifier))
        return self._io

    def _take(self, table: Table) -> None:
        self._io: FileIO = table.io
        self._renew_at = renew_at(table.config, time.time())
