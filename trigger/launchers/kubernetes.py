"""Workers as `SparkApplication` objects on Kubernetes, which a Spark operator turns into pods.

The object's name is the run's id. It follows from the token, so the API itself sees to it that there is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from icemirror.errors import BadConfig, IcemirrorError, Invalid, Transient
from icemirror.run_request import RunRequest
from icemirror.settings.trigger import KubernetesLauncher
from icemirror.state.events import RunState
from trigger.launchers.job_arguments import JobArguments
from trigger.launchers.spark_application import run_state, spark_application

_PLURAL = "sparkapplications"
_KIND = "SparkApplication"
_EXISTS, _NOT_FOUND, _NOT_ALLOWED, _NOT_KNOWN = 409, 404, 403, 401
_WRONG = (400, 413, 415, 422)
# Refusals that pass by themselves.
_FOR_NOW = ("exceeded quota", "being terminated")


class Kubernetes:
    """Launches in one namespace."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 (lightkube's; a fake in tests)
        resource: Any,  # noqa: ANN401 (a class that lightkube makes at run time)
        settings: KubernetesLauncher,
        job: JobArguments,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._resource, self._settings = client, resource, settings
        self._job, self._clock = job, clock

    def launch(self, request: RunRequest) -> str:
        """Creates the object, or finds that it is there."""
        name = self._job.name(request.token)
        wanted = self._resource(spark_application(self._settings, self._job, request))
        try:
            self._client.create(wanted, namespace=self._settings.namespace)
        except Exception as error:
            if _status(error) != _EXISTS:
                raise self._named(error, "create") from error
        return name

    def find(self, token: str) -> str | None:
        """The object of that name, if there is one."""
        name = self._job.name(token)
        return None if self._get(name) is None else name

    def poll(self, run_id: str) -> RunState:
        """How the operator says the run is. One that waits too long for its start is deleted."""
        found = self._get(run_id)
        if found is None:
            return RunState.GONE
        state = run_state(found)
        waited = self._clock() - found.metadata.creationTimestamp.timestamp()
        if state is RunState.QUEUED and waited > self._settings.start_timeout:
            self.cancel(run_id)
            return RunState.GONE
        return state

    def log_of(self, run_id: str) -> str:
        """How a person gets at the driver's output; Kubernetes keeps it as long as the pod."""
        return f"kubectl logs -n {self._settings.namespace} -l icemirror/run={run_id},spark-role=driver"

    def cancel(self, run_id: str) -> None:
        """Deletes the object, and with it its pods."""
        try:
            self._client.delete(self._resource, run_id, namespace=self._settings.namespace)
        except Exception as error:
            if _status(error) != _NOT_FOUND:
                raise self._named(error, "delete") from error

    def _get(self, name: str) -> Any:  # noqa: ANN401 (the resource, or None)
        try:
            return self._client.get(self._resource, name, namespace=self._settings.namespace)
        except Exception as error:
            if _status(error) == _NOT_FOUND:
                return None
            raise self._named(error, "get") from error

    def _named(self, error: Exception, verb: str) -> IcemirrorError:
        """The failure of a call, by what to do about it."""
        code, text, where = _status(error), _text(error), self._settings.namespace
        if code == _NOT_FOUND:
            return Invalid(
                f"Kubernetes knows no {_KIND} of {self._settings.api_version} in the namespace {where}: install the "
                "Spark operator, or correct trigger.launcher.api_version and namespace"
            )
        if code in (_NOT_ALLOWED, _NOT_KNOWN) and not any(word in text for word in _FOR_NOW):
            return Invalid(
                f"Kubernetes does not let the trigger {verb} {_PLURAL} in the namespace {where}: {text}. Bind the role "
                "in infra/kubernetes/base to its service account"
            )
        if code in _WRONG:
            return Invalid(f"Kubernetes refused the {_KIND}: {text}. Check trigger.launcher.template")
        return Transient(f"Kubernetes did not {verb} a {_KIND}: {text or type(error).__name__}")


def open_kubernetes(settings: KubernetesLauncher, job: JobArguments) -> Kubernetes:
    """The launcher with a client of its own: the cluster that it runs in, else that of KUBECONFIG."""
    try:
        from lightkube import Client
        from lightkube.core.exceptions import ConfigError
        from lightkube.generic_resource import create_namespaced_resource
    except ModuleNotFoundError:
        raise BadConfig(
            "trigger.launcher: kubernetes needs lightkube: pip install 'icemirror[kubernetes]'"
        ) from None
    group, _, version = settings.api_version.partition("/")
    resource = create_namespaced_resource(group, version, _KIND, _PLURAL)
    try:
        client = Client(namespace=settings.namespace)
    except ConfigError as error:
        raise BadConfig(
            f"trigger.launcher: no way to Kubernetes: {error}. Run it in a cluster, or set KUBECONFIG"
        ) from None
    return Kubernetes(client, resource, settings, job)


def _status(error: Exception) -> int | None:
    """The API's answer by number; None if it was no answer."""
    code = getattr(getattr(error, "status", None), "code", None)
    # Of a group that it does not know the API speaks in plain text.
    code = code or getattr(getattr(error, "response", None), "status_code", None)
    return code if isinstance(code, int) else None


def _text(error: Exception) -> str:
    """What the API says; of other errors nothing, since they may show what was sent."""
    return str(getattr(getattr(error, "status", None), "message", None) or "")
