"""A FileIO that renews the credentials that a REST catalog vends, before they expire.

PyIceberg does not renew them: apache/iceberg-python#3506. Tasks receive this FileIO like any other, so a task that
starts late, and the commit after long shards, have valid credentials.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from spark_job.pyiceberg_private.open_catalog import open_catalog

# Properties with the time of expiry, in milliseconds since 1970.
_EXPIRY_PROPERTIES = (
    "s3.session-token-expires-at-ms",
    "gcs.oauth2.token-expires-at",
    "adls.sas-token-expires-at-ms",
)
_CREDENTIAL_PROPERTIES = ("s3.session-token", "s3.access-key-id", "gcs.oauth2.token", "adls.sas-token")
_DEFAULT_SECONDS = 300.0  # for catalogs that do not report an expiry
_MARGIN_SECONDS = 60.0


def has_vended_credentials(config: Mapping[str, str]) -> bool:
    """Return whether a table's configuration contains credentials."""
    return any(name.startswith(_CREDENTIAL_PROPERTIES) for name in config)


def renew_at(config: Mapping[str, str], now: float) -> float:
    """Return when to renew: a minute before the first expiry, or half-way if less than two minutes remain."""
    expiries = [int(value) / 1000 for name, value in config.items() if name.startswith(_EXPIRY_PROPERTIES)]
    if not expiries:
        return now + _DEFAULT_SECONDS
    remaining = max(min(expiries) - now, 0.0)
    return now + remaining - min(_MARGIN_SECONDS, remaining / 2)


class VendedIO(FileIO):
    """A table's FileIO that loads the table again before the credentials expire."""

    def __init__(self, catalog: str, catalog_properties: Mapping[str, Any], table: Table) -> None:
        super().__init__(table.io.properties)
        self._catalog, self._catalog_properties = catalog, dict(catalog_properties)
        self._identifier: Identifier = table.name()
        self._use_credentials_of(table)

    def new_input(self, location: str) -> InputFile:
        """Return the file to read at a location."""
        return self.current().new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Return the file to write at a location."""
        return self.current().new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        self.current().delete(location)

    def current(self) -> FileIO:
        """Return a FileIO with valid credentials."""
        if time.time() >= self._renew_at:
            self._use_credentials_of(
                open_catalog(self._catalog, self._catalog_properties).load_table(self._identifier)
            )
        return self._io

    def _use_credentials_of(self, table: Table) -> None:
        self._io: FileIO = table.io
        self._renew_at = renew_at(table.config, time.time())
