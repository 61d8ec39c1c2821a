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

from icemirror.catalog_name import catalog_name, without_name
from icemirror.errors import Corrupt, Invalid, Transient
from icemirror.settings import Settings, TableSettings
from icemirror.sql_address import missing_driver, missing_file, sqlite_path
from icemirror.table_id import TableId
from spark_job.columns.name_mapping import read_by_names
from spark_job.iceberg.damaged_metadata import DamagedMetadata
from spark_job.iceberg.failures import answered, named
from spark_job.iceberg.open_catalog import open_catalog
from spark_job.iceberg.own_properties import named_code, require_known_code
from spark_job.iceberg.vended_io import VendedIO, is_lent
from spark_job.lost_track import NoChangelog

# PyIceberg hands them to botocore as they are, which wants numbers.
_NUMBERS = ("glue.max-retries",)


class Catalogs:
    """The catalogs by name, each opened once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str | None, Catalog] = {}
        self._trusted = frozenset().union(*map(named_code, (*settings.tables, *settings.discover)))

    def get(self, name: str | None) -> Catalog:
        """A catalog by its name under `catalogs`; None is the default one."""
        if name not in self._open:
            title, properties = self._named(name)
            with named(f"catalog {title}"):
                try:
                    self._open[name] = open_catalog(title, properties, self._trusted)
                except NotInstalledError as error:
                    raise missing_driver(getattr(error.__cause__, "name", None)) from error
                except (ValueError, ModuleNotFoundError) as error:
                    raise Invalid(f"catalog {title}: {error}") from error
        return self._open[name]

    def existing(self, name: str | None) -> Catalog:
        """As `get`, but makes no SQLite file where there is none."""
        if (path := self._absent_file(name)) is not None:
            raise missing_file(path)
        return self.get(name)

    def load_changelog(self, table: TableSettings) -> Table:
        """The changelog, which must exist."""
        found = self._load(table.changelog_catalog, table.changelog_id)
        if found is None:
            raise NoChangelog(
                f"{table.changelog_id}: there is no such table in the catalog{self._nearest(table)}, so {table.name} "
                "has no changelog. Check changelog_table and namespace, or wait until the writer has created it."
            )
        return read_by_names(found)

    def _nearest(self, table: TableSettings) -> str:
        """` (did you mean …?)`, where a table beside it has a similar name."""
        wanted = table.changelog_id
        beside: list[str] = []
        with suppress(Exception):  # a hint, no more: some may load tables but not list them
            beside = [one[-1] for one in self.get(table.changelog_catalog).list_tables(wanted.namespace)]
        beside = [name for name in beside if name != table.mirror_id.name]
        near = difflib.get_close_matches(wanted.name, beside, n=1, cutoff=0.75)
        return f" (did you mean {near[0]}?)" if near else ""

    def load_mirror(self, table: TableSettings) -> Table | None:
        """The mirror, if it exists; a catalog of its own may come into being with it."""
        own = table.mirror_catalog != table.changelog_catalog
        with named(table.name):
            if own and self._absent_file(table.mirror_catalog) is not None:
                return None
        found = self._load(table.mirror_catalog, table.mirror_id)
        if found is not None:
            require_known_code(found, named_code(table))
        return found

    def load_rejects(self, table: TableSettings) -> Table | None:
        """The table for the bad rows of a changelog, if there is one yet."""
        found = self._load(table.mirror_catalog, table.rejects_id)
        if found is not None:
            require_known_code(found, named_code(table))
        return found

    def _absent_file(self, name: str | None) -> Path | None:
        path = sqlite_path(self._settings.catalog_properties(name).get("uri", ""))
        return path if path is not None and not path.exists() else None

    def lend(self, name: str | None, table: Table) -> Table:
        """The table, with file access that outlives the credentials that its catalog lent."""
        if is_lent(table.config) and not isinstance(table.io, VendedIO):
            table.io = VendedIO(*self._named(name), table)
        return table

    def _named(self, name: str | None) -> tuple[str, dict[str, Any]]:
        """What `load_catalog` takes."""
        properties = self._settings.catalog_properties(name)
        return catalog_name(properties, name), _typed(without_name(properties))

    def _load(self, catalog: str | None, table: TableId) -> Table | None:
        with named(str(table)), answered(str(table)):
            try:
                return self.lend(catalog, self.existing(catalog).load_table(table.parts))
            except (NoSuchTableError, NoSuchNamespaceError):
                return None
            except DamagedMetadata as error:
                raise Corrupt(f"{table}: {error}") from None
            except FileNotFoundError as error:
                raise Transient(f"{table}: its metadata file is not there: {error}") from error


def _typed(
    properties: Mapping[str, str],
) -> dict[str, Any]:  # PyIceberg says text, but takes what botocore takes
    """The properties, with numbers where text does not do."""
    typed: dict[str, Any] = dict(properties)
    for name in _NUMBERS:
        if name in typed:
            typed[name] = int(typed[name])
    return typed
