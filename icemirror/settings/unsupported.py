"""Valid settings that `watch`, `serve` and `sweep` refuse, although a merge accepts them."""

from __future__ import annotations

from collections.abc import Iterator

from icemirror.catalogs.catalog_properties import catalog_name, unsupported_by_trigger
from icemirror.settings import Settings

LOCAL_NEEDS_SQLITE = (
    "trigger.launcher local needs the state on the same machine: set trigger.state.type to sqlite"
)


def unsupported_settings(settings: Settings) -> list[str]:
    """Return everything in a configuration that the trigger refuses, with its location."""
    return [*_trigger_problems(settings), *_catalog_problems(settings)]


def _trigger_problems(settings: Settings) -> Iterator[str]:
    trigger = settings.trigger
    if trigger.launcher.type == "local" and trigger.state.type != "sqlite":
        yield LOCAL_NEEDS_SQLITE


def _catalog_problems(settings: Settings) -> Iterator[str]:
    """Yield catalogs from which the trigger cannot read heads, although a merge can."""
    used_catalogs = dict.fromkeys(entry.changelog_catalog for entry in (*settings.tables, *settings.discover))
    for name in used_catalogs:
        properties = settings.catalog_properties(name)
        # Without a type PyIceberg may still recognize the catalog.
        if properties.get("type") and (reason := unsupported_by_trigger(properties)) is not None:
            yield f"catalog {catalog_name(properties, name)}: {reason}"
