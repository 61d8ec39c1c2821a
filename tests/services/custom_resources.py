"""Custom resource definitions of an API server, and waiting until they are served."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.services.kube_apiserver import KubeApiServer

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


def is_served(server: KubeApiServer, name: str) -> bool:
    status = server.call("GET", f"{DEFINITIONS}/{name}").get("status") or {}
    states = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    return states.get("Established") == "True"
