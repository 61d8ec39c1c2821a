"""Commit events of Iceberg catalogs: Lakekeeper, Polaris, Nessie, and Iceberg's `CommitReport`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.event_json import (
    MAX_NAME_LEVELS,
    Document,
    EventModel,
    Levels,
    Text,
    is_plain,
    parse_event,
    split_name,
)
from trigger.sources.hints import Hint, NameHint
from trigger.sources.refusal import EventRefused, RefusalReason

_LAKEKEEPER_TYPES = ("createTable", "registerTable", "updateTable", "undropTabulars")
_LEVEL_SEPARATOR = "\x1f"  # between the levels of a namespace, as in the paths of REST catalogs

POLARIS_PREFIX = "org.apache.polaris."
_POLARIS_TYPES = ("AFTER_CREATE_TABLE", "AFTER_REGISTER_TABLE", "AFTER_UPDATE_TABLE")

_NESSIE_STORED = ("CONTENT_STORED", "TABLE_CREATED", "TABLE_ALTERED")
_NESSIE_TYPES = frozenset(
    {
        "CONTENT_STORED", "CONTENT_REMOVED", "COMMIT", "MERGE", "TRANSPLANT",
        "REFERENCE_CREATED", "REFERENCE_UPDATED", "REFERENCE_DELETED",
        "TABLE_CREATED", "TABLE_ALTERED", "TABLE_DROPPED",
        "VIEW_CREATED", "VIEW_ALTERED", "VIEW_DROPPED",
        "NAMESPACE_CREATED", "NAMESPACE_ALTERED", "NAMESPACE_DROPPED",
        "UDF_CREATED", "UDF_ALTERED", "UDF_DROPPED",
        "GENERIC_CONTENT_CREATED", "GENERIC_CONTENT_ALTERED", "GENERIC_CONTENT_DROPPED",
    }
)  # fmt: skip
_NESSIE_TABLE = "ICEBERG_TABLE"

_COMMIT_REPORT = "commit-report"


class _LakekeeperEvent(EventModel):
    type: Text
    name: Text
    namespace: str


def is_lakekeeper_event(document: Document) -> bool:
    """Return whether the event has a tabular id, as only Lakekeeper's events do."""
    return "tabular-id" in document


def read_lakekeeper_event(document: Document) -> tuple[Hint, ...]:
    """Return a hint for a created or updated table, named by the attributes of the CloudEvent."""
    event = parse_event(_LakekeeperEvent, document, "Lakekeeper event")
    if event.type not in _LAKEKEEPER_TYPES:
        return ()
    if _LEVEL_SEPARATOR in event.namespace:
        levels = tuple(event.namespace.split(_LEVEL_SEPARATOR))
    else:
        levels = split_name(event.namespace)
    if len(levels) > MAX_NAME_LEVELS or not all(level and is_plain(level) for level in levels):
        raise EventRefused(RefusalReason.MALFORMED, "malformed Lakekeeper event: namespace")
    return (NameHint((*levels, event.name)),)


class _PolarisEvent(EventModel):
    event_type: Text
    namespace: Levels | None = None
    table_name: Text | None = None
    table_identifier: Annotated[list[Text] | None, Field(min_length=2, max_length=33)] = None


def read_polaris_event(document: Document) -> tuple[Hint, ...]:
    """Return a hint for a created or updated table, from flat JSON or the `data` of a CloudEvent."""
    event = parse_event(_PolarisEvent, document, "Polaris event")
    if event.event_type not in _POLARIS_TYPES:
        return ()
    if event.namespace is not None and event.table_name is not None:
        return (NameHint((*event.namespace, event.table_name)),)
    if event.table_identifier is not None:
        return (NameHint(tuple(event.table_identifier)),)
    raise EventRefused(RefusalReason.MALFORMED, "malformed Polaris event: it names no table")


class _NessieKey(EventModel):
    elements: Levels


class _NessieContent(EventModel):
    type: Text


class _NessieEvent(EventModel):
    key: Annotated[_NessieKey | Levels, Field(alias="contentKey")]
    content: _NessieContent | None = None


def is_nessie_event(document: Document) -> bool:
    """Return whether the type is one of Nessie's."""
    event_type = document.get("type")
    return isinstance(event_type, str) and event_type in _NESSIE_TYPES


def read_nessie_event(document: Document) -> tuple[Hint, ...]:
    """Return a hint for a table that a commit stored. Events of whole commits name no table and give no hint.

    The format is the JSON that Nessie's reference implementation writes to Kafka.
    """
    if document["type"] not in _NESSIE_STORED:
        return ()
    event = parse_event(_NessieEvent, document, "Nessie event")
    if event.content is not None and event.content.type != _NESSIE_TABLE:
        return ()
    return (NameHint(tuple(event.key.elements if isinstance(event.key, _NessieKey) else event.key)),)


class _CommitReport(EventModel):
    table: Annotated[Text, Field(alias="table-name")]


def read_commit_report(document: Document) -> tuple[Hint, ...]:
    """Return a hint for the table of a commit report; scan reports give none.

    Java clients put their own name of the catalog before the table's name.
    """
    if document["report-type"] != _COMMIT_REPORT:
        return ()
    report = parse_event(_CommitReport, document, "commit report")
    return (NameHint(split_name(report.table), may_have_catalog_prefix=True),)
