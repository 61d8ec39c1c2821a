"""Opens the catalogs of the configuration and loads tables from them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, NotInstalledError
from pyiceberg.table import Table

from icemirror.catalogs.catalog_properties import catalog_name, without_name
from icemirror.catalogs.sql_address import missing_driver_error, missing_file_error, sqlite_path
from icemirror.errors import Corrupt, Invalid, Transient
from icemirror.settings import Settings, TableSettings
from icemirror.tables.table_id import TableId
from spark_job.columns.name_mapping import apply_name_mapping
from spark_job.pyiceberg_private.damaged_metadata import DamagedMetadata
from spark_job.pyiceberg_private.open_catalog import open_catalog
from spark_job.pyiceberg_private.untrusted_properties import (
    configured_location_provider,
    require_trusted_location_provider,
)
from spark_job.pyiceberg_private.vended_credentials import VendedIO, has_vended_credentials
from spark_job.storage.translate_errors import catalog_response_errors, translate_errors

# PyIceberg passes this property unchanged to botocore, which requires a number.
_NUMERIC_PROPERTIES = ("glue.max-retries",)


class ChangelogNotFound(Invalid):
    """The catalog has no such table."""


class ChangelogDropped(ChangelogNotFound):
    """The changelog was merged before, and its writer may recreate it: wait."""


class Catalogs:
    """The catalogs by name, each opened once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str | None, Catalog] = {}
        self._trusted_providers = frozenset().union(
            *map(configured_location_provider, (*settings.tables, *settings.discover))
        )

    def get(self, name: str | None) -> Catalog:
        """Return a catalog by its name under `catalogs`; None is the default catalog."""
        if name not in self._open:
            catalog_title, properties = self._load_arguments(name)
            with translate_errors(f"catalog {catalog_title}"):
                try:
                    self._open[name] = open_catalog(catalog_title, properties, self._trusted_providers)
                except NotInstalledError as error:
                    raise missing_driver_error(getattr(error.__cause__, "name", None)) from error
                except (ValueError, ModuleNotFoundError) as error:
                    raise Invalid(f"catalog {catalog_title}: {error}") from error
        return self._open[name]

    def get_existing(self, name: str | None) -> Catalog:
        """Return a catalog like `get`, but raise an error instead of creating a missing SQLite file."""
        if (path := self._missing_sqlite_file(name)) is not None:
            raise missing_file_error(path)
        return self.get(name)

    def load_changelog(self, table_settings: TableSettings) -> Table:
        """Return the changelog. Raise `ChangelogNotFound` if it does not exist."""
        changelog = self._load(table_settings.changelog_catalog, table_settings.changelog_id)
        if changelog is None:
            raise ChangelogNotFound(
                f"{table_settings.name}: there is no changelog "
                f"{table_settings.changelog_id}{self._suggestion(table_settings)}. Check changelog_table and "
                "namespace, or wait until the writer has created it."
            )
        return apply_name_mapping(changelog)

    def _suggestion(self, table_settings: TableSettings) -> str:
        """Return ` (did you mean …?)` if the namespace has a table with a similar name."""
        changelog_id = table_settings.changelog_id
        names: list[str] = []
        with suppress(Exception):  # optional: a user may have permission to load tables but not to list them
            names = [
                identifier[-1]
                for identifier in self.get(table_settings.changelog_catalog).list_tables(
                    changelog_id.namespace
                )
            ]
        names = [name for name in names if name != table_settings.mirror_id.name]
        similar_names = difflib.get_close_matches(changelog_id.name, names, n=1, cutoff=0.75)
        return f" (did you mean {similar_names[0]}?)" if similar_names else ""

    def load_mirror(self, table_settings: TableSettings) -> Table | None:
        """Return the mirror, or None if it does not exist. The file of a separate SQLite catalog may be missing."""
        has_separate_catalog = table_settings.mirror_catalog != table_settings.changelog_catalog
        with translate_errors(table_settings.name):
            if has_separate_catalog and self._missing_sqlite_file(table_settings.mirror_catalog) is not None:
                return None
        mirror = self._load(table_settings.mirror_catalog, table_settings.mirror_id)
        if mirror is not None:
            require_trusted_location_provider(mirror, configured_location_provider(table_settings))
        return mirror

    def load_rejects(self, table_settings: TableSettings) -> Table | None:
        """Return the rejects table, or None if it does not exist."""
        rejects = self._load(table_settings.mirror_catalog, table_settings.rejects_id)
        if rejects is not None:
            require_trusted_location_provider(rejects, configured_location_provider(table_settings))
        return rejects

    def _missing_sqlite_file(self, name: str | None) -> Path | None:
        path = sqlite_path(self._settings.catalog_properties(name).get("uri", ""))
        return path if path is not None and not path.exists() else None

    def with_renewable_credentials(self, name: str | None, iceberg_table: Table) -> Table:
        """Return the table, with a FileIO that renews vended credentials if its catalog vends any."""
        if has_vended_credentials(iceberg_table.config) and not isinstance(iceberg_table.io, VendedIO):
            iceberg_table.io = VendedIO(*self._load_arguments(name), iceberg_table)
        return iceberg_table

    def _load_arguments(self, name: str | None) -> tuple[str, dict[str, Any]]:
        """Return the arguments for `load_catalog`."""
        properties = self._settings.catalog_properties(name)
        return catalog_name(properties, name), _with_numbers(without_name(properties))

    def _load(self, catalog: str | None, table: TableId) -> Table | None:
        """Return a table, or None if it does not exist."""
        with translate_errors(str(table)), catalog_response_errors(str(table)):
            try:
                return self.with_renewable_credentials(
                    catalog, self.get_existing(catalog).load_table(table.parts)
                )
            except (NoSuchTableError, NoSuchNamespaceError):
                return None
            except DamagedMetadata as error:
                raise Corrupt(f"{table}: {error}") from None
            except FileNotFoundError as error:
                raise Transient(f"{table}: its metadata file is missing: {error}") from error


def _with_numbers(
    properties: Mapping[str, str],
) -> dict[str, Any]:  # PyIceberg declares text, but botocore needs numbers
    """Return the properties, with numbers where botocore requires them."""
    converted: dict[str, Any] = dict(properties)
    for name in _NUMERIC_PROPERTIES:
        if name in converted:
            converted[name] = int(converted[name])
    return converted
