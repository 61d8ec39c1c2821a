"""Finds the changelogs that `discover` matches, through the job's own catalogs."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.exceptions import NoSuchNamespaceError

from icemirror.settings import Settings, expand_discovered
from spark_job.iceberg.failures import named
from spark_job.iceberg.tables import Catalogs

_OF_HIVE = "UnknownDBException"  # by its name: its package is there only where Hive is used


def discover_tables(settings: Settings, catalogs: Catalogs) -> Settings:
    """The settings with every discovered table among `tables`."""
    if not settings.discover:
        return settings

    def list_tables(catalog: str | None, namespace: str) -> Iterable[str]:
        with named(f"namespace {namespace}"):
            opened = catalogs.existing(catalog)
            try:
                return [str(identifier[-1]) for identifier in opened.list_tables(namespace)]
            except Exception as error:
                if is_absent(error):  # no match yet: the first writer makes it
                    return []
                raise

    return expand_discovered(settings, list_tables)


def is_absent(error: Exception) -> bool:
    """Whether a catalog says that there is no such namespace; Hive says it in its own way."""
    return isinstance(error, NoSuchNamespaceError) or type(error).__name__ == _OF_HIVE
