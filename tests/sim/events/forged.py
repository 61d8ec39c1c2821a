"""Generates forged or damaged events from a seed. None of them belongs to a registered table."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

RECORDED = Path(__file__).parents[2] / "unit" / "trigger" / "sources" / "events"
BUCKET, FOLDER = "lake-7q", "zx9/q7_changelog/metadata"
CHANGELOG, MIRROR = ("zx9", "q7_changelog"), ("ym4", "q7")
CONFIG = f"""
iceberg: {{catalog: {{type: sql, uri: "sqlite:///unused.db"}}}}
tables: [{{changelog: {".".join(CHANGELOG)}, mirror: {".".join(MIRROR)}, primary_keys: [id]}}]
trigger: {{quiet_period: 0s}}
"""
HEAD = f"s3://{BUCKET}/{FOLDER}/00001-a.metadata.json"


@dataclass(frozen=True)
class Forged:
    """An event body, with the headers of its Kafka record."""

    kind: str
    body: bytes
    headers: dict[str, bytes] = field(default_factory=dict)


def recorded() -> list[bytes]:
    """Return all recorded events."""
    return [file.read_bytes() for file in sorted(RECORDED.glob("*.json"))]


SAMPLES = recorded()


def forge(chance: random.Random) -> Forged:
    """Generate one event."""
    kind = chance.choice(sorted(KINDS))
    event = KINDS[kind](chance)
    return event if isinstance(event, Forged) else Forged(kind, event)


def _sample(chance: random.Random) -> bytes:
    return chance.choice(SAMPLES)


def _flipped(chance: random.Random) -> bytes:
    body = bytearray(_sample(chance))
    for _ in range(chance.randint(1, 40)):
        body[chance.randrange(len(body))] = chance.randrange(256)
    return bytes(body)


def _cut(chance: random.Random) -> bytes:
    body = _sample(chance)
    return body[: chance.randrange(len(body))]


def _noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(2000))


def _large(chance: random.Random) -> bytes:
    return _sample(chance) + b" " * chance.randint(64 * 1024, 200_000)


def _deep(chance: random.Random) -> bytes:
    depth = chance.choice([17, 40, 900, 5000, 30_000])
    opened = chance.choice([b"[", b'{"a":'])
    return (
        b'{"table":"a.b","x":'
        + opened * depth
        + (b"]" if opened == b"[" else b"1}") * chance.choice([0, depth])
        + b"}"
    )


def _random_value(chance: random.Random, depth: int = 0) -> Any:
    match chance.randrange(8 if depth < 4 else 6):
        case 0:
            return None
        case 1:
            return chance.choice([True, False, -1, 2**63, 10**400, 1e308, 0.1])
        case 2:
            return _text(chance)
        case 3:
            return ""
        case 4:
            return "x" * chance.choice([10, 2000, 20_000])
        case 5:
            return chance.choice(["\u0000", "\ud800", "..", "\u202e", "\x1f"])
        case 6:
            return [_random_value(chance, depth + 1) for _ in range(chance.randrange(4))]
        case _:
            return {_text(chance): _random_value(chance, depth + 1) for _ in range(chance.randrange(4))}


def _text(chance: random.Random) -> str:
    known = [
        "Records",
        "table",
        "type",
        "data",
        "detail",
        "name",
        "namespace",
        "eventName",
        "s3",
        "source",
        "key",
    ]
    return chance.choice([*known, *(chr(chance.randrange(1, 0xD7FF)) for _ in range(3))])


def _replaced(chance: random.Random) -> bytes:
    """A recorded event with some values, at any depth, replaced by random ones."""
    document = json.loads(_sample(chance))
    for _ in range(chance.randint(1, 4)):
        node: Any = document
        while isinstance(node, dict | list) and node:
            key = chance.choice(list(node)) if isinstance(node, dict) else chance.randrange(len(node))
            if not isinstance(node[key], dict | list) or chance.random() < 0.3:
                node[key] = _random_value(chance)
                break
            node = node[key]
    return json.dumps(document).encode()


def _s3(key: str, bucket: str = BUCKET) -> bytes:
    entity = {"bucket": {"name": bucket}, "object": {"key": key}}
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": entity}]}).encode()


def _near_location(chance: random.Random) -> bytes:
    """A location that almost equals a registered one."""
    registered = f"{FOLDER}/00002-b.metadata.json"
    parent = FOLDER.rpartition("/")[0]
    twice = quote("".join(f"%{byte:02x}" for byte in registered.encode()))
    return chance.choice(
        [
            _s3(registered, chance.choice(["lake-7", "lake-7q2", "LAKE-7Q", "", "other"])),
            _s3(f"{FOLDER}x/00002-b.metadata.json"),
            _s3(f"{parent}/data/00002-b.metadata.json"),
            _s3(f"{parent}/00002-b.metadata.json"),
            _s3(f"a/../{registered}"),
            _s3(f"a/%2e%2e/{registered}"),
            _s3(f"{FOLDER}/../{FOLDER}/1.metadata.json"),
            _s3(twice),
            _s3(f"{FOLDER}/00002-b.metadata.json%00.parquet"),
            _s3(f"{FOLDER}/a%00.metadata.json"),
            _s3(f"{FOLDER}/00002-b.parquet"),
            _s3(f"{FOLDER}/%ff.metadata.json"),
            _s3(registered.upper().replace(".METADATA.JSON", ".metadata.json")),
            json.dumps({"location": f"http://{BUCKET}/{registered}"}).encode(),
            json.dumps({"location": f"gs://{BUCKET}/{registered}"}).encode(),
            json.dumps({"location": f"s3://{BUCKET}/{FOLDER}/.././metadata/1.metadata.json"}).encode(),
        ]
    )


def _near_name(chance: random.Random) -> bytes:
    """A name that almost equals a registered one."""
    namespace, table = CHANGELOG
    wrong = chance.choice(
        [
            (namespace, f"{table}x"), (namespace, table.upper()), (f"{namespace} ", table), ("other", table),
            (namespace, ""),
            (f"x.{namespace}", table), (namespace, f"{table}\u0000"), ("", table), (table, namespace), MIRROR,
            (namespace, f"../{table}"),
        ]
    )  # fmt: skip
    return chance.choice(
        [
            json.dumps({"source": "aws.glue", "detail-type": "Glue Data Catalog Table State Change",
                        "detail": {"databaseName": wrong[0], "tableName": wrong[1], "typeOfChange": "UpdateTable"}}),
            json.dumps({"event_type": "AFTER_UPDATE_TABLE", "namespace": [wrong[0]], "table_name": wrong[1]}),
            json.dumps({"type": "CONTENT_STORED", "contentKey": {"elements": list(wrong)}}),
            json.dumps({"specversion": "1.0", "type": "updateTable", "tabular-id": "x",
                        "namespace": wrong[0], "name": wrong[1]}),
            json.dumps({"specversion": "1.0", "type": "dropTable", "tabular-id": "x",
                        "namespace": namespace, "name": table}),
            json.dumps({"report-type": "scan-report", "table-name": ".".join(CHANGELOG)}),
        ]
    ).encode()  # fmt: skip


def _run(chance: random.Random) -> bytes:
    run = chance.choice(["r", "zx9-0-1", "../x", "default-0-1", _text(chance)])
    detail = {"jobRunId": run, "applicationId": "a", "state": "FAILED"}
    event = {
        "source": "aws.emr-serverless",
        "detail-type": "EMR Serverless Job Run State Change",
        "detail": detail,
    }
    return json.dumps(
        chance.choice([event, {"kind": "SparkApplication", "metadata": {"name": run}}])
    ).encode()


def _headers(chance: random.Random) -> Forged:
    names = ("ce_specversion", "ce_type", "ce_name", "ce_namespace", "ce_tabular-id", "content-type", "ce_")
    headers = {name: chance.randbytes(chance.randrange(30)) for name in names if chance.random() < 0.7}
    headers |= {"ce_specversion": b"1.0"} if chance.random() < 0.5 else {}
    return Forged("headers", chance.choice([_sample, _noise, _replaced])(chance), headers)


KINDS: dict[str, Callable[[random.Random], bytes | Forged]] = {
    "flipped": _flipped, "cut": _cut, "noise": _noise, "large": _large, "deep": _deep, "replaced": _replaced,
    "near a location": _near_location, "near a name": _near_name, "a run": _run, "headers": _headers,
}  # fmt: skip
