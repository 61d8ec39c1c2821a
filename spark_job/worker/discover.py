"""Finds the changelogs that `discover` matches, through the job's catalogs."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.exceptions import NoSuchNamespaceError

from icemirror.settings import Settings, expand_discovered
from spark_job.iceberg.catalogs import Catalogs
from spark_job.storage.translate_errors import translate_errors

_HIVE_NO_DATABASE = "UnknownDBException"  # compared by name: the package is installed only with Hive


def discover_tables(settings: Settings, catalogs: Catalogs) -> Settings:
    """Return the settings with every discovered table in `tables`."""
    if not settings.discover:
        return settings

    def list_tables(catalog: str | None, namespace: str) -> Iterable[str]:
        with translate_errors(f"namespace {namespace}"):
            iceberg_catalog = catalogs.get_existing(catalog)
            try:
                return [str(identifier[-1]) for identifier in iceberg_catalog.list_tables(namespace)]
            except Exception as error:
                if is_missing_namespace(error):  # no match yet: the first writer creates it
                    return []
                raise

    return expand_discovered(settings, list_tables)


def is_missing_namespace(error: Exception) -> bool:
    """Return whether the error means that the namespace does not exist; Hive has a separate error for that."""
    return isinstance(error, NoSuchNamespaceError) or type(error).__name__ == _HIVE_NO_DATABASE
