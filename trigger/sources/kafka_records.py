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


def decode_cloud_event(headers: Mapping[str, bytes], value: bytes) -> bytes:
    """Return the record's event as one JSON text: a binary-mode CloudEvent has its attributes in the headers."""
    attributes = {
        name.removeprefix(_ATTRIBUTE_PREFIX): text.decode("utf-8", "replace")
        for name, text in headers.items()
        if name.startswith(_ATTRIBUTE_PREFIX) and text is not None
    }
    if "specversion" not in attributes:
        return value
    return json.dumps({**attributes, "data": _parse_data(value)}, separators=(",", ":")).encode()


def _parse_data(value: bytes) -> Any:  # noqa: ANN401 (JSON of any kind)
    """Return the data of a binary-mode event; None if it is not a JSON object."""
    try:
        return parse_body(value)
    except EventRefused as error:
        if error.refusal.reason is not RefusalReason.MALFORMED:
            raise
        return None


def decode_kafka_record(headers: Mapping[str, bytes], value: bytes | None) -> bytes | None:
    """Return the event body of a record; None for a null record without headers, which is not an event."""
    if value is None and not headers:
        return None
    try:
        return decode_cloud_event(headers, value or b"")
    except EventRefused:
        return bytes(value or b"")


def decode_lambda_records(partitions: Mapping[str, Any]) -> list[bytes]:  # Any: AWS' JSON
    """Return the event bodies of all records that Lambda passes on, by topic and partition."""
    return [
        body
        for records in partitions.values()
        for record in records
        if (body := _decode_lambda_record(record)) is not None
    ]


def _decode_lambda_record(record: Mapping[str, Any]) -> bytes | None:
    headers, encoded = dict(_decode_lambda_headers(record)), record.get("value")
    try:
        value = None if encoded is None else base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return str(encoded).encode("utf-8", "surrogatepass")  # refused later, when it is parsed
    return decode_kafka_record(headers, value)


def _decode_lambda_headers(record: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    for header in record.get("headers") or ():
        for name, signed_bytes in header.items():
            yield name, bytes(signed_byte & 0xFF for signed_byte in signed_bytes)  # Java's bytes are signed
