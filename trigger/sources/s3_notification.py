"""S3 event notifications, as they come through SQS or SNS."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.body import Document
from trigger.sources.hints import Hint, LocationHint
from trigger.sources.place import decode_key, safe_place
from trigger.sources.shape import MOST_RECORDS, Text, Told, read_as


class _Bucket(Told):
    name: Text


class _Object(Told):
    # Percent-encoded, so longer than the key, and plain whatever the key holds.
    key: Annotated[str, Field(min_length=1, max_length=4096)]


class _S3(Told):
    bucket: _Bucket
    object: _Object


class _Record(Told):
    event_name: Annotated[Text, Field(alias="eventName")]
    s3: _S3


class _Notification(Told):
    records: Annotated[list[_Record], Field(alias="Records", max_length=MOST_RECORDS)]


def read_s3_notification(document: Document) -> tuple[Hint, ...]:
    """A hint for every metadata file that was written; data files precede their commit and may be orphans."""
    told = read_as(_Notification, document, "S3 notification")
    places = [
        safe_place("s3", record.s3.bucket.name, decode_key(record.s3.object.key))
        for record in told.records
        if record.event_name.removeprefix("s3:").startswith("ObjectCreated:")
    ]
    return tuple(LocationHint(place) for place in places if place.is_metadata)
