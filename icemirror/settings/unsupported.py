"""Settings that are valid but not supported yet: commands that need them refuse them."""

from __future__ import annotations

from collections.abc import Iterator

from icemirror.catalogs.catalog_kind import unsupported_by_trigger
from icemirror.catalogs.catalog_name import catalog_name
from icemirror.settings import Settings
from icemirror.settings.table_options import TableOptions


def unsupported_settings(settings: Settings) -> list[str]:
    """Return everything in a configuration that some command refuses, with its location."""
    tables = [(table.name, table) for table in settings.tables]
    found = [(f"discover {entry.namespace}.{entry.match}", entry) for entry in settings.discover]
    unsupported = [
        f"{name}: {what}" for name, options in (*tables, *found) for what in unsupported_options(options)
    ]
    return [*unsupported, *_of_trigger(settings), *_of_catalogs(settings)]


def unsupported_options(options: TableOptions) -> Iterator[str]:
    """Yield options of a table that are not supported yet."""
    if options.append_only and options.on_bad_row != "stop":
        yield f"append_only with on_bad_row: {options.on_bad_row}"


def _of_trigger(settings: Settings) -> Iterator[str]:
    trigger = settings.trigger
    if trigger.launcher.type == "local" and trigger.state.type != "sqlite":
        yield f"trigger.launcher: local, with trigger.state: {trigger.state.type} (use sqlite)"


def _of_catalogs(settings: Settings) -> Iterator[str]:
    """Yield catalogs from which the trigger cannot read heads, although a merge can."""
    used = dict.fromkeys(entry.changelog_catalog for entry in (*settings.tables, *settings.discover))
    for configured in used:
        properties = settings.catalog_properties(configured)
        # Without a type PyIceberg may still recognize the catalog.
        if properties.get("type") and (why := unsupported_by_trigger(properties)) is not None:
            yield f"catalog {catalog_name(properties, configured)}: {why}"
