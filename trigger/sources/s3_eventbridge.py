"""S3 events through EventBridge."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trigger.sources.body import Document
from trigger.sources.hints import Hint, LocationHint
from trigger.sources.place import decode_key, safe_place
from trigger.sources.shape import Text, Told, read_as

CREATED = "Object Created"


class _Bucket(Told):
    name: Text


class _Object(Told):
    key: Annotated[str, Field(min_length=1, max_length=4096)]


class _Detail(Told):
    bucket: _Bucket
    object: _Object


class _Event(Told):
    detail: _Detail


def read_s3_event(document: Document) -> tuple[Hint, ...]:
    """A hint for a metadata file that was written.

    EventBridge gives the key as it is; some emulators encode it. Where the two readings differ both are looked up,
    and one of them is nobody's.
    """
    if document.get("detail-type") != CREATED:
        return ()
    detail = read_as(_Event, document, "S3 event").detail
    written = detail.object.key
    places = [
        safe_place("s3", detail.bucket.name, key) for key in dict.fromkeys((written, decode_key(written)))
    ]
    return tuple(LocationHint(place) for place in places if place.is_metadata)
