"""The Kubernetes API for the state: its client, a bounded retry, and the meaning of its failures."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ConfigError

from icemirror.errors import BadConfig, IcemirrorError, Invalid, Transient
from icemirror.settings.trigger import KubernetesState

NOT_FOUND, CONFLICT = 404, 409
ROLE = "infra/kubernetes/base/state-role.yaml"
_ATTEMPTS = 4
_TIMEOUT_SECONDS = 10.0
_PAUSE_SECONDS = 0.2
_REFUSED = (401, 403)
_TOO_LARGE, _UNPROCESSABLE = 413, 422
_TRANSIENT = (408, 429, 500, 502, 503, 504)
T = TypeVar("T")


def open_client(state: KubernetesState) -> Client:
    """Open a client for the cluster that this process runs in, else for `KUBECONFIG` or `~/.kube/config`."""
    try:
        timeout = httpx2.Timeout(_TIMEOUT_SECONDS)
        return Client(namespace=state.namespace, field_manager="icemirror", timeout=timeout)
    except (ConfigError, AssertionError, OSError) as error:  # (lightkube asserts that there is a user)
        raise BadConfig(
            f"trigger.state: no Kubernetes cluster is configured ({error}): run inside a cluster, or set KUBECONFIG"
        ) from error


def http_status(error: Exception) -> int | None:
    """Return the HTTP status of a refusal; None if there was no response, or an invalid one."""
    return error.response.status_code if isinstance(error, httpx2.HTTPStatusError) else None


@dataclass(frozen=True, slots=True)
class ExpectedStatus:
    """A refusal that the caller expected."""

    status: int


class ApiCalls:
    """Performs requests in one namespace: retries transient failures, and translates the others."""

    def __init__(
        self, namespace: str, attempts: int = _ATTEMPTS, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._namespace = namespace
        self._attempts = attempts
        self._sleep = sleep

    def __call__(self, request: Callable[[], T], *expected: int) -> T | ExpectedStatus:
        """Return the result of the request, or a refusal with one of the expected statuses."""
        for attempt in range(self._attempts):
            try:
                return request()
            # (KeyError: a response without a content type, in lightkube; ValueError: invalid or incomplete JSON)
            except (httpx2.HTTPError, KeyError, ValueError) as error:
                status = http_status(error)
                if status in expected:
                    return ExpectedStatus(status)
                if not _is_transient(error) or attempt == self._attempts - 1:
                    raise self._classify(error) from error
            self._sleep(_PAUSE_SECONDS * 2**attempt * (0.5 + random.random()))  # noqa: S311
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _classify(self, error: Exception) -> IcemirrorError:
        """Return the failure of a request as an error with its remedy."""
        status, namespace = http_status(error), f"Namespace: {self._namespace}"
        match status:
            case None:
                return Transient(
                    f"Kubernetes did not respond ({type(error).__name__}: {error}); try again. {namespace}"
                )
            case _ if status in _REFUSED:
                return Invalid(
                    f"Kubernetes refused access to the state ({status}: {error}): grant the service account get, list, "
                    f"create, update and delete of configmaps, as in {ROLE}. {namespace}"
                )
            case _ if status == _TOO_LARGE or _is_too_large(error):
                return Invalid(
                    "a state row exceeds the limit of 1 MB: find the table with a very long error in `icemirror "
                    f"status`, and clear it with `icemirror resume`. {namespace}"
                )
            case _ if status == NOT_FOUND:
                return Invalid(f"the state's namespace does not exist ({error}): create it. {namespace}")
            case _ if status in _TRANSIENT:
                return Transient(f"Kubernetes failed ({status}: {error}); try again. {namespace}")
            case _:
                return Invalid(f"Kubernetes refused a request for the state ({status}: {error}). {namespace}")


def _is_transient(error: Exception) -> bool:
    status = http_status(error)
    return (status is None or status in _TRANSIENT) and not _is_too_large(error)


def _is_too_large(error: Exception) -> bool:
    """Return whether the API server (422) or etcd (500) reports that the object is too large."""
    text = str(error).lower()
    return http_status(error) in (_UNPROCESSABLE, 500) and ("too long" in text or "too large" in text)
