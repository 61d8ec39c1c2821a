"""Lakekeeper's CloudEvents: which table it is stands in the event's own attributes."""

from __future__ import annotations

from trigger.sources.body import Document
from trigger.sources.hints import Hint, NameHint
from trigger.sources.refused import Reason, Refused
from trigger.sources.shape import MOST_LEVELS, Text, Told, dotted, is_plain, read_as

_OF_INTEREST = ("createTable", "registerTable", "updateTable", "undropTabulars")
_LEVELS = "\x1f"  # between the levels of a namespace, as in the addresses of REST catalogs


class _Event(Told):
    type: Text
    name: Text
    namespace: str


def is_lakekeeper(document: Document) -> bool:
    """Only Lakekeeper names a tabular."""
    return "tabular-id" in document


def read_lakekeeper_event(document: Document) -> tuple[Hint, ...]:
    """A hint for a table that was made or changed."""
    told = read_as(_Event, document, "Lakekeeper event")
    if told.type not in _OF_INTEREST:
        return ()
    levels = tuple(told.namespace.split(_LEVELS)) if _LEVELS in told.namespace else dotted(told.namespace)
    if len(levels) > MOST_LEVELS or not all(level and is_plain(level) for level in levels):
        raise Refused(Reason.MALFORMED, "no Lakekeeper event as it should be: namespace")
    return (NameHint((*levels, told.name)),)
