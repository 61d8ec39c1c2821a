"""From an event body to hints. The source is detected from the JSON's shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field

from trigger.sources.aws_events import (
    read_glue_event,
    read_s3_event,
    read_s3_notification,
    read_s3_tables_event,
)
from trigger.sources.catalog_events import (
    POLARIS_PREFIX,
    is_lakekeeper_event,
    is_nessie_event,
    read_commit_report,
    read_lakekeeper_event,
    read_nessie_event,
    read_polaris_event,
)
from trigger.sources.event_json import (
    MAX_RECORDS,
    Document,
    EventModel,
    Text,
    parse_body,
    parse_event,
    split_name,
)
from trigger.sources.hints import Hint, LocationHint, NameHint
from trigger.sources.object_location import check_location, parse_location
from trigger.sources.refusal import EventRefused, RefusalReason
from trigger.sources.run_events import SPARK_APPLICATION, read_emr_event, read_spark_application

_EVENTBRIDGE_SOURCES: Mapping[str, Callable[[Document], tuple[Hint, ...]]] = {
    "aws.s3": read_s3_event,
    "aws.glue": read_glue_event,
    "aws.s3tables": read_s3_tables_event,
    "aws.emr-serverless": read_emr_event,
}
_GENERIC_KEYS = frozenset({"table", "tables", "location"})


def parse_hints(body: bytes) -> tuple[Hint, ...]:
    """Return an event's hints, none if it is irrelevant. Raise `EventRefused` if it cannot be parsed."""
    document = parse_body(body)
    match document:
        case {"Type": "Notification", "Message": str(message)}:  # the envelope of SNS
            return _read(parse_body(message.encode("utf-8", "surrogatepass")))
        case _:
            return _read(document)


def _read(document: Document) -> tuple[Hint, ...]:
    match document:
        case {"Records": _}:
            return read_s3_notification(document)
        case {"Event": "s3:TestEvent"}:
            return ()
        case {"detail-type": str(), "source": str(source)} if source in _EVENTBRIDGE_SOURCES:
            return _EVENTBRIDGE_SOURCES[source](document)
        case {"specversion": _}:
            return _read_cloud_event(document)
        case {"report-type": _}:
            return read_commit_report(document)
        case {"kind": kind} if kind == SPARK_APPLICATION:
            return read_spark_application(document)
        case {"object": {"kind": kind} as application} if kind == SPARK_APPLICATION:  # a line of a watch
            return read_spark_application(application)
        case _:
            return _read_data(document)


def _read_cloud_event(document: Document) -> tuple[Hint, ...]:
    if is_lakekeeper_event(document):
        return read_lakekeeper_event(document)
    match document:
        case {"type": str(event_type), "data": {} as data} if event_type.startswith(POLARIS_PREFIX):
            return read_polaris_event(data)
        case {"data": {} as data}:
            return _read_data(data)
        case _:
            raise EventRefused(RefusalReason.UNKNOWN_KIND, "a CloudEvent of an unknown kind")


def _read_data(document: Document) -> tuple[Hint, ...]:
    """Return the hints of a format that is sent alone or as the `data` of a CloudEvent."""
    if is_nessie_event(document):
        return read_nessie_event(document)
    if "event_type" in document:
        return read_polaris_event(document)
    if _GENERIC_KEYS & document.keys():
        return _read_generic(document)
    raise EventRefused(RefusalReason.UNKNOWN_KIND, "an event of an unknown kind")


class _GenericEvent(EventModel):
    table: Text | None = None
    tables: Annotated[list[Text], Field(max_length=MAX_RECORDS, default_factory=list)]
    location: Annotated[str | None, Field(min_length=1, max_length=2048)] = None


def _read_generic(document: Document) -> tuple[Hint, ...]:
    """Return the hints of icemirror's own format: `{"table": "raw.orders_changelog"}` or `{"location": "s3://…"}`."""
    event = parse_event(_GenericEvent, document, "notice")
    names = [*([event.table] if event.table is not None else []), *event.tables]
    hints: list[Hint] = [NameHint(split_name(name), may_be_mirror_name=True) for name in names]
    if event.location is not None:
        parsed = parse_location(event.location)
        if parsed is None:
            raise EventRefused(
                RefusalReason.MALFORMED,
                "the location is not an object's address; write it like s3://bucket/key",
            )
        location = check_location(parsed.store, parsed.bucket, parsed.key)
        hints += [LocationHint(location)] if location.is_metadata else []
    return tuple(hints)
