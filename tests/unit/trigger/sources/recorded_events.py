"""Events as their sources send them."""

from __future__ import annotations

import json
from pathlib import Path

from trigger.sources.kafka_records import decode_cloud_event

EVENTS = Path(__file__).with_name("events")


def event(name: str) -> bytes:
    """Return a recorded event. A Kafka record is stored as its headers and its value."""
    body = (EVENTS / f"{name}.json").read_bytes()
    record = json.loads(body)
    if set(record) != {"headers", "value"}:
        return body
    headers = {key: text.encode() for key, text in record["headers"].items()}
    return decode_cloud_event(headers, json.dumps(record["value"]).encode())


def s3_event(key: str, bucket: str = "lake") -> bytes:
    record = {"bucket": {"name": bucket}, "object": {"key": key}}
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": record}]}).encode()
