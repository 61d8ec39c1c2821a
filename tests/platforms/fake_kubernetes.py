"""A fake Kubernetes API server for SparkApplications, as a transport of lightkube's client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx2
from lightkube import Client, KubeConfig
from lightkube.config.models import Cluster, Context, User

NAMESPACE = "jobs"
REASONS = {400: "BadRequest", 403: "Forbidden", 404: "NotFound", 409: "AlreadyExists", 422: "Invalid"}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass
class Fault:
    """An error response. Status 0: the request is executed, but its response is lost."""

    status: int
    message: str = ""


class FakeKubernetes(httpx2.BaseTransport):
    """Objects of one kind in one namespace. `faults` are errors of the next calls; `pause` is called around each."""

    def __init__(self, clock: Callable[[], float], api_version: str = "sparkoperator.k8s.io/v1beta2") -> None:
        self.clock, self.api_version = clock, api_version
        self.objects: dict[str, dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        self.faults: list[Fault] = []
        self.calls: list[str] = []
        self.installed = True
        self.pause: Callable[[str], None] = lambda _: None
        self._root = f"/apis/{api_version}/namespaces/{NAMESPACE}/sparkapplications"

    def client(self) -> Client:
        """Return a lightkube client of this server."""
        config = KubeConfig(
            clusters={"fake": Cluster(server="http://kubernetes.test", insecure=True)},
            contexts={"fake": Context(cluster="fake", user="me", namespace=NAMESPACE)},
            users={"me": User()},
            current_context="fake",
        )
        return Client(config=config, transport=self, trust_env=False)

    def set_state(self, name: str, state: str) -> None:
        """Set an application's state, as the operator does."""
        if self.api_version.startswith("spark.apache.org/"):
            status = {"currentState": {"currentStateSummary": state}}
        else:
            status = {"applicationState": {"state": state}}
        self.objects[name]["status"] = status

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.pause(f"before {request.method}")
        self.calls.append(f"{request.method} {request.url.path}")
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and fault.status:
            return _error_response(fault.status, fault.message)
        response = self._respond(request)
        self.pause(f"after {request.method}")
        if fault is not None:
            raise httpx2.ReadTimeout("no response", request=request)
        return response

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if not self.installed or not path.startswith(self._root):
            return _error_response(404, "the server could not find the requested resource")
        name = path.removeprefix(self._root).strip("/")
        match request.method:
            case "POST":
                return self._create(json.loads(request.content))
            case "GET" if name in self.objects:
                return httpx2.Response(200, json=self.objects[name])
            case "DELETE" if name in self.objects:
                return httpx2.Response(200, json=self.objects.pop(name))
        return _error_response(404, f'sparkapplications "{name}" not found')

    def _create(self, body: dict[str, Any]) -> httpx2.Response:
        name = body["metadata"]["name"]
        if (body["apiVersion"], body["kind"]) != (self.api_version, "SparkApplication"):
            return _error_response(400, "the API version in the data does not match")
        if not _NAME.fullmatch(name) or any(len(value) > 63 for value in body["metadata"]["labels"].values()):
            return _error_response(422, "metadata is invalid")
        if name in self.objects:
            return _error_response(409, f'sparkapplications "{name}" already exists')
        now = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body["metadata"] |= {
            "uid": f"uid-{len(self.created)}",
            "creationTimestamp": now,
            "resourceVersion": "1",
        }
        self.objects[name] = body
        self.created.append(body)
        return httpx2.Response(201, json=body)


def _error_response(code: int, message: str) -> httpx2.Response:
    status = {"kind": "Status", "status": "Failure", "code": code, "message": message}
    return httpx2.Response(code, json={**status, "reason": REASONS.get(code, "")})
