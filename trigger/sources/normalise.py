"""From an event to hints: which source it is of shows in its shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from trigger.sources.body import Document, read_body
from trigger.sources.commit_report import read_report
from trigger.sources.emr_serverless import read_emr_event
from trigger.sources.generic import KEYS, read_notice
from trigger.sources.glue import read_glue_event
from trigger.sources.hints import Hint
from trigger.sources.lakekeeper import is_lakekeeper, read_lakekeeper_event
from trigger.sources.nessie import is_nessie, read_nessie_event
from trigger.sources.polaris import TYPE_PREFIX, read_polaris_event
from trigger.sources.refused import Reason, Refused
from trigger.sources.s3_eventbridge import read_s3_event
from trigger.sources.s3_notification import read_s3_notification
from trigger.sources.s3_tables import read_s3_tables_event
from trigger.sources.spark_application import KIND, read_spark_application

_BINARY = "ce_"
_OF_EVENTBRIDGE: Mapping[str, Callable[[Document], tuple[Hint, ...]]] = {
    "aws.s3": read_s3_event,
    "aws.glue": read_glue_event,
    "aws.s3tables": read_s3_tables_event,
    "aws.emr-serverless": read_emr_event,
}


def normalise(body: bytes) -> tuple[Hint, ...]:
    """What an event tells, none where it is of no interest; `Refused` where it cannot be understood."""
    document = read_body(body)
    match document:
        case {"Type": "Notification", "Message": str(message)}:  # SNS puts its envelope around the same
            return read(read_body(message.encode("utf-8", "surrogatepass")))
        case _:
            return read(document)


def read(document: Document) -> tuple[Hint, ...]:
    """What a parsed event tells."""
    match document:
        case {"Records": _}:
            return read_s3_notification(document)
        case {"Event": "s3:TestEvent"}:
            return ()
        case {"detail-type": str(), "source": str(source)} if source in _OF_EVENTBRIDGE:
            return _OF_EVENTBRIDGE[source](document)
        case {"specversion": _}:
            return _read_cloud_event(document)
        case {"report-type": _}:
            return read_report(document)
        case {"kind": kind} if kind == KIND:
            return read_spark_application(document)
        case {"object": {"kind": kind} as application} if kind == KIND:
            return read_spark_application(application)
        case _:
            return _read_plain(document)


def _read_cloud_event(document: Document) -> tuple[Hint, ...]:
    if is_lakekeeper(document):
        return read_lakekeeper_event(document)
    match document:
        case {"type": str(kind), "data": {} as data} if kind.startswith(TYPE_PREFIX):
            return read_polaris_event(data)
        case {"data": {} as data}:
            return _read_plain(data)
        case _:
            raise Refused(Reason.UNKNOWN_KIND, "a CloudEvent of no kind that icemirror knows")


def _read_plain(document: Document) -> tuple[Hint, ...]:
    """Forms that stand alone, or below `data` of a CloudEvent."""
    if is_nessie(document):
        return read_nessie_event(document)
    if "event_type" in document:
        return read_polaris_event(document)
    if KEYS & document.keys():
        return read_notice(document)
    raise Refused(Reason.UNKNOWN_KIND, "an event of no kind that icemirror knows")


def whole_event(headers: Mapping[str, bytes], value: bytes) -> bytes:
    """A record of Kafka as one JSON text: a CloudEvent in binary mode has its attributes in the headers."""
    attributes = {
        name.removeprefix(_BINARY): text.decode("utf-8", "replace")
        for name, text in headers.items()
        if name.startswith(_BINARY) and text is not None
    }
    if "specversion" not in attributes:
        return value
    return json.dumps({**attributes, "data": _data(value)}, separators=(",", ":")).encode()


def _data(value: bytes) -> Any:  # noqa: ANN401 (JSON of any kind)
    """The data of a binary event, which may be anything, null or nothing."""
    try:
        return read_body(value)
    except Refused as refused:
        if refused.reason is not Reason.MALFORMED:
            raise
        return None
