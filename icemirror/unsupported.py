"""What the configuration knows but this version does not do yet: refused by name where it is needed, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from icemirror.catalog_kind import cannot_look
from icemirror.catalog_name import catalog_name
from icemirror.settings import Settings
from icemirror.settings.table_options import TableOptions


def of_settings(settings: Settings) -> list[str]:
    """Everything in a configuration that some command will refuse, each with where it stands."""
    tables = [(table.name, table) for table in settings.tables]
    found = [(f"discover {entry.namespace}.{entry.match}", entry) for entry in settings.discover]
    said = [f"{name}: {what}" for name, options in (*tables, *found) for what in of_table(options)]
    return [*said, *_of_trigger(settings), *_of_catalogs(settings)]


def of_table(options: TableOptions) -> Iterator[str]:
    """Settings of a table whose feature does not exist yet."""
    if options.append_only and options.on_bad_row != "stop":
        yield f"append_only with on_bad_row: {options.on_bad_row}"


def _of_trigger(settings: Settings) -> Iterator[str]:
    trigger = settings.trigger
    if trigger.launcher.type == "local" and trigger.state.type != "sqlite":
        yield f"trigger.launcher: local, with trigger.state: {trigger.state.type} (use sqlite)"


def _of_catalogs(settings: Settings) -> Iterator[str]:
    """Catalogs of changelogs whose head the trigger cannot look at; a merge can."""
    used = dict.fromkeys(entry.changelog_catalog for entry in (*settings.tables, *settings.discover))
    for configured in used:
        properties = settings.catalog_properties(configured)
        # Without a type it may be one that PyIceberg tells by more than we do.
        if properties.get("type") and (why := cannot_look(properties)) is not None:
            yield f"catalog {catalog_name(properties, configured)}: {why}"
