"""The Kubernetes API as the state uses it: its client, a bounded retry, and what its failures mean."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
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
_TOO_LARGE, _UNFIT = 413, 422
_PASSING = (408, 429, 500, 502, 503, 504)
T = TypeVar("T")


def open_client(state: KubernetesState) -> Client:
    """A client for the cluster that this process runs in, else for the one of `KUBECONFIG` or `~/.kube/config`."""
    try:
        timeout = httpx2.Timeout(_TIMEOUT_SECONDS)
        return Client(namespace=state.namespace, field_manager="icemirror", timeout=timeout)
    except (ConfigError, AssertionError, OSError) as error:  # (lightkube asserts that there is a user)
        raise BadConfig(
            f"trigger.state: no Kubernetes cluster is set up here ({error}): run inside of one, or set KUBECONFIG"
        ) from error


def status_of(error: Exception) -> int | None:
    """The HTTP status of a refusal; None if there was no answer, or one that makes no sense."""
    return error.response.status_code if isinstance(error, httpx2.HTTPStatusError) else None


class Calls:
    """Performs requests about one namespace: repeats what may pass, and names what does not."""

    def __init__(
        self, namespace: str, attempts: int = _ATTEMPTS, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._namespace = namespace
        self._attempts = attempts
        self._sleep = sleep

    def __call__(self, request: Callable[[], T], *expected: int) -> T | int:
        """What the request gives, or the status with which it was refused, if that was expected."""
        for attempt in range(self._attempts):
            try:
                return request()
            # (KeyError: lightkube had an answer without a content type; ValueError: no JSON, or half of it)
            except (httpx2.HTTPError, KeyError, ValueError) as error:
                status = status_of(error)
                if status in expected:
                    return status
                if not _passing(error) or attempt == self._attempts - 1:
                    raise self._named(error) from error
            self._sleep(_PAUSE_SECONDS * 2**attempt * (0.5 + random.random()))  # noqa: S311
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _named(self, error: Exception) -> IcemirrorError:
        """The failure of a request, named for what to do about it."""
        status, where = status_of(error), f"the state in the namespace {self._namespace}"
        match status:
            case None:
                return Transient(f"Kubernetes did not answer about {where}: {type(error).__name__}: {error}")
            case _ if status in _REFUSED:
                return Invalid(
                    f"Kubernetes refused to show or change {where} ({status}: {error}): the service account needs "
                    f"get, list, create, update and delete of configmaps there; {ROLE} grants them"
                )
            case _ if status == _TOO_LARGE or _says_too_large(error):
                return Invalid(
                    f"a row of {where} is larger than Kubernetes takes (1 MB): `icemirror status` names the table "
                    "with a very long error; `icemirror resume` clears it"
                )
            case _ if status == NOT_FOUND:
                return Invalid(f"there is no namespace {self._namespace} for the state: create it ({error})")
            case _ if status in _PASSING:
                return Transient(f"Kubernetes could not serve {where} ({status}: {error}); try again")
            case _:
                return Invalid(f"Kubernetes does not take what was asked of {where} ({status}: {error})")


def _passing(error: Exception) -> bool:
    status = status_of(error)
    return (status is None or status in _PASSING) and not _says_too_large(error)


def _says_too_large(error: Exception) -> bool:
    """422 of the API server, or 500 with the words of etcd."""
    said = str(error).lower()
    return status_of(error) in (_UNFIT, 500) and ("too long" in said or "too large" in said)
