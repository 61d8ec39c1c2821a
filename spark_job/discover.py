"""Finds the changelogs that `discover` matches, through the job's own catalogs."""

from __future__ import annotations

from collections.abc import Iterable

from icemirror.settings import Settings, expand_discovered
from spark_job.iceberg.failures import named
from spark_job.iceberg.tables import Catalogs


def discover_tables(settings: Settings) -> Settings:
    """The settings with every discovered table among `tables`."""
    if not settings.discover:
        return settings
    catalogs = Catalogs(settings)

    def list_tables(catalog: str | None, namespace: str) -> Iterable[str]:
        with named(f"namespace {namespace}"):
            return [str(identifier[-1]) for identifier in catalogs.existing(catalog).list_tables(namespace)]

    return expand_discovered(settings, list_tables)
