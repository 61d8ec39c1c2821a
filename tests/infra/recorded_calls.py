"""Records the AWS calls of any process as IAM evaluates them.

A proxy in front of the emulator records each request, and refuses those that the role's policy does not allow.
"""

from __future__ import annotations

import http.client
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.infra.calls import Call
from tests.infra.s3_calls import s3_calls
from tests.services.fault_proxy import Request, fault_proxy

_SIGNED = re.compile(r"Credential=([^/]+)/\d+/[^/]+/([^/]+)/aws4_request")
_RUNS = re.compile(r"/applications/(?P<application>\w+)(?P<runs>/jobruns)?(/(?P<run>\w+))?")
_EMR = {
    ("GET", False, False): "GetApplication",
    ("GET", True, False): "ListJobRuns",
    ("POST", True, False): "StartJobRun",
    ("GET", True, True): "GetJobRun",
    ("DELETE", True, True): "CancelJobRun",
}
_DENIED = (
    b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no policy allows it</Message></Error>",
    b'{"__type": "AccessDeniedException", "message": "no policy allows it"}',
)


@dataclass(frozen=True)
class RoleCalls:
    """All calls of a role, and the refused ones among them."""

    calls: set[Call] = field(default_factory=set)
    refused: set[Call] = field(default_factory=set)


@dataclass
class Recorder:
    """Records requests by the access key ID that signed them, which is the role's name."""

    account: str
    region: str
    allows: Callable[[str, Call], bool]
    calls_of: defaultdict[str, RoleCalls] = field(default_factory=lambda: defaultdict(RoleCalls))

    @contextmanager
    def proxy(self, address: str) -> Iterator[str]:
        """Yield the address of a recording proxy in front of a local server."""
        with fault_proxy(urlsplit(address).port or 0, refuse=self.record) as server:
            yield server.endpoint

    def record(self, request: Request) -> tuple[int, bytes] | None:
        """Record a request; return an AccessDenied response if the policy does not allow it."""
        signed = _SIGNED.search(request.headers.get("Authorization", ""))
        role, service = signed.groups() if signed else ("unsigned", "unknown")
        calls = set(self._calls(service, request))
        refused = {call for call in calls if not self.allows(role, call)}
        self.calls_of[role].calls.update(calls)
        self.calls_of[role].refused.update(refused)
        return (http.client.FORBIDDEN, _DENIED[service != "s3"]) if refused else None

    def _calls(self, service: str, request: Request) -> Iterator[Call]:
        scope = f"{self.region}:{self.account}"
        target = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        match service:
            case "s3":
                yield from s3_calls(request)
            case "glue" | "dynamodb":
                for resource in _resources(service, scope, json.loads(request.body)):
                    yield Call(f"{service}:{target}", resource)
            case "emr-serverless":
                yield from _emr_calls(scope, request)
            case _:
                yield Call.unknown(service, f"{request.method} {request.path} {target}")


def _resources(service: str, scope: str, given: dict[str, Any]) -> Iterator[str]:
    match service, given:
        case "glue", {"Name": database, **rest} | {"DatabaseInput": {"Name": database}, **rest} if (
            "DatabaseName" not in rest
        ):
            yield f"arn:aws:glue:{scope}:catalog"
            yield f"arn:aws:glue:{scope}:database/{database}"
        case "glue", {"DatabaseName": database, "Name": table} | {
            "DatabaseName": database,
            "TableInput": {"Name": table},
        }:
            yield f"arn:aws:glue:{scope}:catalog"
            yield f"arn:aws:glue:{scope}:database/{database}"
            yield f"arn:aws:glue:{scope}:table/{database}/{table}"
        case "glue", {"DatabaseName": database}:  # lists its tables
            yield f"arn:aws:glue:{scope}:catalog"
            yield f"arn:aws:glue:{scope}:database/{database}"
            yield f"arn:aws:glue:{scope}:table/{database}/*"
        case "dynamodb", {"TableName": table}:
            yield f"arn:aws:dynamodb:{scope}:table/{table}"
        case "dynamodb", {"RequestItems": tables}:
            yield from (f"arn:aws:dynamodb:{scope}:table/{table}" for table in tables)
        case _:
            yield f"unknown resource of a request with {sorted(given)}"


def _emr_calls(scope: str, request: Request) -> Iterator[Call]:
    found = _RUNS.fullmatch(urlsplit(request.path).path)
    action = found and _EMR.get((request.method, bool(found["runs"]), bool(found["run"])))
    if found is None or action is None:
        yield Call.unknown("emr-serverless", f"{request.method} {request.path}")
        return
    application = f"arn:aws:emr-serverless:{scope}:/applications/{found['application']}"
    run = f"{application}/jobruns/{found['run'] or 'new'}"
    yield Call(f"emr-serverless:{action}", run if found["run"] else application)
    if action == "StartJobRun":
        given = json.loads(request.body)
        passed = ("iam:PassedToService", "emr-serverless.amazonaws.com")
        yield Call("iam:PassRole", given["executionRoleArn"], (passed,))
        if given.get("tags"):
            yield Call("emr-serverless:TagResource", run)
        if disks := given.get("configurationOverrides", {}).get("diskEncryptionConfiguration"):
            yield Call("kms:DescribeKey", disks["encryptionKeyArn"])
