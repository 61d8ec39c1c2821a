"""AWS events: S3, Glue and S3 Tables, through SQS, SNS or EventBridge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.event_json import (
    MAX_RECORDS,
    Document,
    EventModel,
    Text,
    parse_event,
    split_name,
)
from trigger.sources.hints import Hint, LocationHint, NameHint
from trigger.sources.object_location import check_location, decode_key

_OBJECT_CREATED = "Object Created"
_GLUE_TABLE_CHANGED = "Glue Data Catalog Table State Change"
_GLUE_CHANGES = ("CreateTable", "UpdateTable")
_S3_TABLES_CALLS = ("CreateTable", "UpdateTableMetadataLocation", "UpdateTable")
_S3_TABLES_MAINTENANCE = "maintenance.s3tables.amazonaws.com"


class _S3Bucket(EventModel):
    name: Text


class _S3Object(EventModel):
    # May be percent-encoded, so longer than the key and printable in any case.
    key: Annotated[str, Field(min_length=1, max_length=4096)]


class _S3Entity(EventModel):
    bucket: _S3Bucket
    object: _S3Object


class _S3Record(EventModel):
    event_name: Annotated[Text, Field(alias="eventName")]
    s3: _S3Entity


class _S3Notification(EventModel):
    records: Annotated[list[_S3Record], Field(alias="Records", max_length=MAX_RECORDS)]


def read_s3_notification(document: Document) -> tuple[Hint, ...]:
    """Return a hint per created metadata file. Data files precede their commit and may be orphans."""
    notification = parse_event(_S3Notification, document, "S3 notification")
    locations = [
        check_location("s3", record.s3.bucket.name, decode_key(record.s3.object.key))
        for record in notification.records
        if record.event_name.removeprefix("s3:").startswith("ObjectCreated:")
    ]
    return tuple(LocationHint(location) for location in locations if location.is_metadata)


class _S3Event(EventModel):
    detail: _S3Entity


def read_s3_event(document: Document) -> tuple[Hint, ...]:
    """Return a hint for a metadata file that EventBridge reports as created.

    EventBridge sends the key as it is; some emulators encode it. If the two readings differ, both become hints, and
    at most one of them matches a registered table.
    """
    if document.get("detail-type") != _OBJECT_CREATED:
        return ()
    detail = parse_event(_S3Event, document, "S3 event").detail
    sent_key = detail.object.key
    locations = [
        check_location("s3", detail.bucket.name, key)
        for key in dict.fromkeys((sent_key, decode_key(sent_key)))
    ]
    return tuple(LocationHint(location) for location in locations if location.is_metadata)


class _GlueDetail(EventModel):
    database: Annotated[Text, Field(alias="databaseName")]
    table: Annotated[Text, Field(alias="tableName")]
    change: Annotated[Text, Field(alias="typeOfChange")]


class _GlueEvent(EventModel):
    detail: _GlueDetail


def read_glue_event(document: Document) -> tuple[Hint, ...]:
    """Return a hint for a created or updated table; other Glue events report no commit."""
    if document.get("detail-type") != _GLUE_TABLE_CHANGED:
        return ()
    detail = parse_event(_GlueEvent, document, "Glue event").detail
    if detail.change not in _GLUE_CHANGES:
        return ()
    return (NameHint((*split_name(detail.database), detail.table)),)


class _S3TablesParameters(EventModel):
    namespace: Text
    name: Text


class _S3TablesIdentity(EventModel):
    invoked_by: Annotated[str | None, Field(alias="invokedBy", default=None, max_length=1024)]


class _S3TablesDetail(EventModel):
    event_name: Annotated[Text, Field(alias="eventName")]
    user_agent: Annotated[str | None, Field(alias="userAgent", default=None, max_length=4096)]
    identity: Annotated[_S3TablesIdentity, Field(alias="userIdentity", default_factory=_S3TablesIdentity)]
    error: Annotated[str | None, Field(alias="errorCode", default=None, max_length=1024)]
    parameters: Annotated[_S3TablesParameters | None, Field(alias="requestParameters", default=None)]


class _S3TablesEvent(EventModel):
    detail: _S3TablesDetail


def read_s3_tables_event(document: Document) -> tuple[Hint, ...]:
    """Return a hint for a call, recorded by CloudTrail, that moved a table's metadata.

    S3's own maintenance changes no row and gives no hint.
    """
    detail = parse_event(_S3TablesEvent, document, "S3 Tables event").detail
    is_maintenance = _S3_TABLES_MAINTENANCE in (detail.user_agent, detail.identity.invoked_by)
    if (
        is_maintenance
        or detail.error
        or detail.event_name not in _S3_TABLES_CALLS
        or detail.parameters is None
    ):
        return ()
    return (NameHint((*split_name(detail.parameters.namespace), detail.parameters.name)),)
