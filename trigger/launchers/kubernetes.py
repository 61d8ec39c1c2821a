"""Workers as `SparkApplication` objects on Kubernetes, which a Spark operator turns into pods.

The object's name is the run's id. It is derived from the token, so the API ensures that a token has one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from icemirror.errors import BadConfig, IcemirrorError, Invalid, Transient
from icemirror.protocol.events import RunState
from icemirror.protocol.run_request import RunRequest
from icemirror.settings.trigger import KubernetesLauncherSettings
from trigger.launchers.job_arguments import JobArguments
from trigger.launchers.spark_application import run_state, spark_application

_PLURAL = "sparkapplications"
_KIND = "SparkApplication"
_CONFLICT, _NOT_FOUND, _FORBIDDEN, _UNAUTHORIZED = 409, 404, 403, 401
_INVALID_REQUEST = (400, 413, 415, 422)
# Refusals that are temporary.
_TEMPORARY = ("exceeded quota", "being terminated")


class KubernetesLauncher:
    """Launches in one namespace."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 (lightkube's; a fake in tests)
        resource: Any,  # noqa: ANN401 (a class that lightkube creates at run time)
        settings: KubernetesLauncherSettings,
        job: JobArguments,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._resource, self._settings = client, resource, settings
        self._job, self._clock = job, clock

    def launch(self, request: RunRequest) -> str:
        """Create the object, unless it exists."""
        name = self._job.run_name(request.token)
        application = self._resource(spark_application(self._settings, self._job, request))
        try:
            self._client.create(application, namespace=self._settings.namespace)
        except Exception as error:
            if _http_status(error) != _CONFLICT:
                raise self._classify_error(error, "create") from error
        return name

    def find(self, token: str) -> str | None:
        """Return the name of the token's object, if it exists."""
        name = self._job.run_name(token)
        return None if self._get(name) is None else name

    def poll(self, run_id: str) -> RunState:
        """Return the operator's state of the run. A run that is queued too long is deleted."""
        application = self._get(run_id)
        if application is None:
            return RunState.ENDED
        state = run_state(application)
        age_seconds = self._clock() - application.metadata.creationTimestamp.timestamp()
        if state is RunState.QUEUED and age_seconds > self._settings.start_timeout:
            self.cancel(run_id)
            return RunState.ENDED
        return state

    def log_location(self, run_id: str) -> str:
        """Return the command that shows the driver's output; Kubernetes keeps it as long as the pod."""
        return f"kubectl logs -n {self._settings.namespace} -l icemirror/run={run_id},spark-role=driver"

    def cancel(self, run_id: str) -> None:
        """Delete the object and its pods."""
        try:
            self._client.delete(self._resource, run_id, namespace=self._settings.namespace)
        except Exception as error:
            if _http_status(error) != _NOT_FOUND:
                raise self._classify_error(error, "delete") from error

    def _get(self, name: str) -> Any:  # noqa: ANN401 (the resource, or None)
        try:
            return self._client.get(self._resource, name, namespace=self._settings.namespace)
        except Exception as error:
            if _http_status(error) == _NOT_FOUND:
                return None
            raise self._classify_error(error, "get") from error

    def _classify_error(self, error: Exception, verb: str) -> IcemirrorError:
        """Return the icemirror error for a failed call."""
        status, text, namespace = _http_status(error), _api_message(error), self._settings.namespace
        if status == _NOT_FOUND:
            return Invalid(
                f"Kubernetes has no {_KIND} of {self._settings.api_version} in the namespace {namespace}: install the "
                "Spark operator, or correct trigger.launcher.api_version and namespace"
            )
        if status in (_FORBIDDEN, _UNAUTHORIZED) and not any(word in text for word in _TEMPORARY):
            return Invalid(
                f"Kubernetes does not let the trigger {verb} {_PLURAL} in the namespace {namespace}: {text}. Bind the "
                "role in infra/kubernetes/base to its service account"
            )
        if status in _INVALID_REQUEST:
            return Invalid(f"Kubernetes refused the {_KIND}: {text}. Check trigger.launcher.template")
        return Transient(f"Kubernetes did not {verb} a {_KIND}: {text or type(error).__name__}")


def open_kubernetes_launcher(settings: KubernetesLauncherSettings, job: JobArguments) -> KubernetesLauncher:
    """Open the launcher for the cluster that it runs in, or the cluster of KUBECONFIG."""
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
            f"trigger.launcher: no Kubernetes cluster is configured ({error}): run in a cluster, or set KUBECONFIG"
        ) from None
    return KubernetesLauncher(client, resource, settings, job)


def _http_status(error: Exception) -> int | None:
    """Return the HTTP status of the API's response; None if there was none."""
    status = getattr(getattr(error, "status", None), "code", None)
    # For an unknown API group the response is plain text.
    status = status or getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _api_message(error: Exception) -> str:
    """Return the API's message. Other errors give no text, since it may contain the request."""
    return str(getattr(getattr(error, "status", None), "message", None) or "")
