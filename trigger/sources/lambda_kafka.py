"""Records of Kafka as Lambda hands them over: by topic and partition, values in base64, headers as lists of bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from trigger.sources.normalise import whole_event
from trigger.sources.refused import Refused


def bodies_of(partitions: Mapping[str, Any]) -> list[bytes]:  # Any: JSON of AWS's
    """The events of all records; a deletion mark is none."""
    return [
        body
        for records in partitions.values()
        for record in records
        if (body := _body(record.get("value"), dict(_headers(record)))) is not None
    ]


def _body(encoded: str | None, headers: Mapping[str, bytes]) -> bytes | None:
    if encoded is None and not headers:
        return None
    try:
        value = base64.b64decode(encoded or "", validate=True)
    except binascii.Error:
        return str(encoded).encode("utf-8", "surrogatepass")  # refused later, by name
    try:
        return whole_event(headers, value)
    except Refused:
        return value


def _headers(record: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    for header in record.get("headers") or ():
        for name, numbers in header.items():
            yield name, bytes(number & 0xFF for number in numbers)  # Java's bytes are signed
