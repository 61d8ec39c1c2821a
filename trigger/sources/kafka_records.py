"""Kafka records, from a consumer or as Lambda passes them on, as event bodies."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any

from trigger.sources.event_json import parse_body
from trigger.sources.refusal import EventRefused, RefusalReason

_ATTRIBUTE_PREFIX = "ce_"


def decode_kafka_record(headers: Mapping[str, bytes], value: bytes) -> bytes:
    """Return the record's event as one JSON text. A binary-mode CloudEvent has its attributes in the headers."""
    attributes = {
        name.removeprefix(_ATTRIBUTE_PREFIX): text.decode("utf-8", "replace")
        for name, text in headers.items()
        if name.startswith(_ATTRIBUTE_PREFIX) and text is not None
    }
    if "specversion" not in attributes:
        return value
    return json.dumps({**attributes, "data": _data(value)}, separators=(",", ":")).encode()


def _data(value: bytes) -> Any:  # noqa: ANN401 (JSON of any kind)
    """The data of a binary-mode event; None if it is not a JSON object."""
    try:
        return parse_body(value)
    except EventRefused as refused:
        if refused.reason is not RefusalReason.MALFORMED:
            raise
        return None


def kafka_event_body(headers: Mapping[str, bytes], value: bytes | None) -> bytes | None:
    """Return the event body of a record; None for a null record without headers, which is not an event."""
    if value is None and not headers:
        return None
    try:
        return decode_kafka_record(headers, value or b"")
    except EventRefused:
        return bytes(value or b"")


def decode_lambda_records(partitions: Mapping[str, Any]) -> list[bytes]:  # Any: AWS' JSON
    """Return the event bodies of all records that Lambda passes on, by topic and partition."""
    return [
        body
        for records in partitions.values()
        for record in records
        if (body := _lambda_body(record.get("value"), dict(_lambda_headers(record)))) is not None
    ]


def _lambda_body(encoded: str | None, headers: Mapping[str, bytes]) -> bytes | None:
    try:
        value = None if encoded is None else base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return str(encoded).encode("utf-8", "surrogatepass")  # refused later, when it is parsed
    return kafka_event_body(headers, value)


def _lambda_headers(record: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    for header in record.get("headers") or ():
        for name, numbers in header.items():
            yield name, bytes(number & 0xFF for number in numbers)  # Java's bytes are signed
