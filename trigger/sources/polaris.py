"""Polaris's events: flat JSON, or the same below `data` of a CloudEvent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.body import Document
from trigger.sources.hints import Hint, NameHint
from trigger.sources.refused import Reason, Refused
from trigger.sources.shape import Levels, Text, Told, read_as

TYPE_PREFIX = "org.apache.polaris."
_OF_INTEREST = ("AFTER_CREATE_TABLE", "AFTER_REGISTER_TABLE", "AFTER_UPDATE_TABLE")


class _Event(Told):
    event_type: Text
    namespace: Levels | None = None
    table_name: Text | None = None
    table_identifier: Annotated[list[Text] | None, Field(min_length=2, max_length=33)] = None


def read_polaris_event(document: Document) -> tuple[Hint, ...]:
    """A hint for a table that was made or changed."""
    told = read_as(_Event, document, "Polaris event")
    if told.event_type not in _OF_INTEREST:
        return ()
    if told.namespace is not None and told.table_name is not None:
        return (NameHint((*told.namespace, told.table_name)),)
    if told.table_identifier is not None:
        return (NameHint(tuple(told.table_identifier)),)
    raise Refused(Reason.MALFORMED, "no Polaris event as it should be: it names no table")
