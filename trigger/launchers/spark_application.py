"""A run as a `SparkApplication`, of the Kubeflow operator or of Apache's, and what its status means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icemirror.run_request import RunRequest
from icemirror.settings.trigger import KubernetesLauncher
from icemirror.state.events import RunState
from trigger.launchers.job_arguments import JobArguments

PREFIX = "spark.kubernetes."
APACHE = "spark.apache.org"
Object = dict[str, Any]  # Any: Kubernetes' own shapes

_SPARK_VERSION = "4.0.0"  # the operators ask for one; the image decides
_JOB_USER = 10001  # of our image
_SECURITY: Object = {
    "runAsNonRoot": True,
    "runAsUser": _JOB_USER,
    "runAsGroup": _JOB_USER,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_KUBEFLOW_STATES = {
    "": RunState.QUEUED,
    "SUBMITTED": RunState.QUEUED,
    "PENDING_RERUN": RunState.QUEUED,
    "INVALIDATING": RunState.QUEUED,
    "RESUMING": RunState.QUEUED,
    "RUNNING": RunState.RUNNING,
    "SUCCEEDING": RunState.GONE,
    "COMPLETED": RunState.GONE,
    "FAILING": RunState.GONE,
    "FAILED": RunState.GONE,
    "SUBMISSION_FAILED": RunState.GONE,
    "SUSPENDING": RunState.GONE,  # by hand: its pods are deleted
    "SUSPENDED": RunState.GONE,
}
_APACHE_STATES = {
    "": RunState.QUEUED,
    "Submitted": RunState.QUEUED,
    "ScheduledToRestart": RunState.QUEUED,
    "DriverRequested": RunState.QUEUED,
    "DriverStarted": RunState.RUNNING,
    "DriverReady": RunState.RUNNING,
    "InitializedBelowThresholdExecutors": RunState.RUNNING,
    "RunningHealthy": RunState.RUNNING,
    "RunningWithPartialCapacity": RunState.RUNNING,
    "RunningWithBelowThresholdExecutors": RunState.RUNNING,
    "DriverStartTimedOut": RunState.GONE,
    "DriverReadyTimedOut": RunState.GONE,
    "ExecutorsStartTimedOut": RunState.GONE,
    "Succeeded": RunState.GONE,
    "Failed": RunState.GONE,
    "SchedulingFailure": RunState.GONE,
    "DriverEvicted": RunState.GONE,
    "ResourceReleased": RunState.GONE,
    "TerminatedWithoutReleaseResources": RunState.GONE,
}


def spark_application(settings: KubernetesLauncher, job: JobArguments, request: RunRequest) -> Object:
    """The object to create: ours, with the template over it, and again what must not be changed."""
    name = job.name(request.token)
    mine: Object = {
        "apiVersion": settings.api_version,
        "kind": "SparkApplication",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": _labels(job, request)},
        "spec": _apache(settings, job, request)
        if _is_apache(settings)
        else _kubeflow(settings, job, request),
    }
    # Who is launched again is for the protocol to say.
    never = (
        {"applicationTolerations": {"restartConfig": {"restartPolicy": "Never"}}}
        if _is_apache(settings)
        else {"restartPolicy": {"type": "Never"}}
    )
    fixed = {
        "apiVersion": settings.api_version,
        "kind": "SparkApplication",
        "metadata": {"name": name, "namespace": settings.namespace},
        "spec": never,
    }
    return merge(merge(mine, settings.template), fixed)


def merge(base: Object, over: Mapping[str, Any]) -> Object:
    """Mappings are joined at every depth; anything else in `over` takes the place of what was there. None removes."""
    merged = dict(base)
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            below = merged.get(key)
            merged[key] = merge(below if isinstance(below, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def run_state(application: Mapping[str, Any]) -> RunState:
    """How the operator says the run is. Of a word that is new, nobody knows."""
    status = application.get("status") or {}
    if str(application.get("apiVersion", "")).startswith(f"{APACHE}/"):
        summary = (status.get("currentState") or {}).get("currentStateSummary") or ""
        return _APACHE_STATES.get(summary, RunState.UNKNOWN)
    state = (status.get("applicationState") or {}).get("state") or ""
    return _KUBEFLOW_STATES.get(state, RunState.UNKNOWN)


def _is_apache(settings: KubernetesLauncher) -> bool:
    return settings.api_version.startswith(f"{APACHE}/")


def _labels(job: JobArguments, request: RunRequest) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "icemirror",
        "app.kubernetes.io/component": "job",
        "app.kubernetes.io/managed-by": "icemirror-trigger",
        "icemirror/run": job.name(request.token),
    }


def _spark_conf(settings: KubernetesLauncher, job: JobArguments) -> dict[str, str]:
    """Secrets by Spark's own property: it works with either operator, and without an admission webhook."""
    secrets = {
        f"{PREFIX}driver.secretKeyRef.{variable}": place.replace("/", ":")
        for variable, place in settings.secrets.items()
    }
    return {**job.spark_at_start, **secrets}


def _kubeflow(settings: KubernetesLauncher, job: JobArguments, request: RunRequest) -> Object:
    labels = _labels(job, request)
    return {
        "type": "Python",
        "pythonVersion": "3",
        "mode": "cluster",
        "sparkVersion": _SPARK_VERSION,
        "image": settings.image,
        "mainApplicationFile": settings.entry_point,
        "arguments": job.of(request),
        "sparkConf": _spark_conf(settings, job),
        "timeToLiveSeconds": int(settings.keep),
        "driver": {
            "serviceAccount": settings.service_account,
            "labels": labels,
            "securityContext": _SECURITY,
        },
        "executor": {"instances": 1, "labels": labels, "securityContext": _SECURITY},
    }


def _apache(settings: KubernetesLauncher, job: JobArguments, request: RunRequest) -> Object:
    labels = _labels(job, request)
    return {
        "pyFiles": settings.entry_point,
        "driverArgs": job.of(request),
        "runtimeVersions": {"sparkVersion": _SPARK_VERSION},
        "sparkConf": {
            f"{PREFIX}authenticate.driver.serviceAccountName": settings.service_account,
            f"{PREFIX}container.image": settings.image,
            **_spark_conf(settings, job),
        },
        "driverSpec": _apache_pod("driver", labels),
        "executorSpec": _apache_pod("executor", labels),
        "applicationTolerations": {"ttlAfterStopMillis": int(settings.keep * 1000)},
    }


def _apache_pod(worker: str, labels: Object) -> Object:
    """What Spark makes a pod from: a namespace of restricted pods asks for some of it in each container."""
    of_pod = ("runAsNonRoot", "runAsUser", "runAsGroup", "seccompProfile")
    container = {
        "name": f"spark-kubernetes-{worker}",  # Spark's own, for its first
        "securityContext": {key: value for key, value in _SECURITY.items() if key not in of_pod},
    }
    spec = {"securityContext": {key: _SECURITY[key] for key in of_pod}, "containers": [container]}
    return {"podTemplateSpec": {"metadata": {"labels": labels}, "spec": spec}}
