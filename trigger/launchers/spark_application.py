"""A run as a `SparkApplication` of the Kubeflow or Apache operator, and the meaning of its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icemirror.protocol.events import RunState
from icemirror.protocol.run_request import RunRequest
from icemirror.settings.trigger import KubernetesLauncherSettings
from trigger.launchers.job_arguments import JobArguments

PLATFORM_PREFIX = "spark.kubernetes."
APACHE = "spark.apache.org"
Object = dict[str, Any]  # Any: Kubernetes' JSON

_SPARK_VERSION = "4.0.0"  # the operators require one; the image decides
_JOB_USER = 10001  # the user of icemirror's image
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
    "SUCCEEDING": RunState.ENDED,
    "COMPLETED": RunState.ENDED,
    "FAILING": RunState.ENDED,
    "FAILED": RunState.ENDED,
    "SUBMISSION_FAILED": RunState.ENDED,
    "SUSPENDING": RunState.ENDED,  # by a user: its pods are deleted
    "SUSPENDED": RunState.ENDED,
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
    "DriverStartTimedOut": RunState.ENDED,
    "DriverReadyTimedOut": RunState.ENDED,
    "ExecutorsStartTimedOut": RunState.ENDED,
    "Succeeded": RunState.ENDED,
    "Failed": RunState.ENDED,
    "SchedulingFailure": RunState.ENDED,
    "DriverEvicted": RunState.ENDED,
    "ResourceReleased": RunState.ENDED,
    "TerminatedWithoutReleaseResources": RunState.ENDED,
}


def spark_application(settings: KubernetesLauncherSettings, job: JobArguments, request: RunRequest) -> Object:
    """Return the object to create: icemirror's defaults, then the template, then the fields that must not change."""
    name = job.run_name(request.token)
    defaults: Object = {
        "apiVersion": settings.api_version,
        "kind": "SparkApplication",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": _labels(job, request)},
        "spec": _apache_spec(settings, job, request)
        if _is_apache(settings)
        else _kubeflow_spec(settings, job, request),
    }
    # The protocol decides what is launched again.
    no_restart = (
        {"applicationTolerations": {"restartConfig": {"restartPolicy": "Never"}}}
        if _is_apache(settings)
        else {"restartPolicy": {"type": "Never"}}
    )
    fixed = {
        "apiVersion": settings.api_version,
        "kind": "SparkApplication",
        "metadata": {"name": name, "namespace": settings.namespace},
        "spec": no_restart,
    }
    return merge_mappings(merge_mappings(defaults, settings.template), fixed)


def merge_mappings(base: Object, overrides: Mapping[str, Any]) -> Object:
    """Return the mappings, merged at every depth. Other values of `overrides` replace those of `base`; None removes."""
    merged = dict(base)
    for key, value in overrides.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            nested = merged.get(key)
            merged[key] = merge_mappings(nested if isinstance(nested, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def run_state(application: Mapping[str, Any]) -> RunState:
    """Return the run state for the operator's state; a new state is unknown."""
    status = application.get("status") or {}
    if str(application.get("apiVersion", "")).startswith(f"{APACHE}/"):
        summary = (status.get("currentState") or {}).get("currentStateSummary") or ""
        return _APACHE_STATES.get(summary, RunState.UNKNOWN)
    state = (status.get("applicationState") or {}).get("state") or ""
    return _KUBEFLOW_STATES.get(state, RunState.UNKNOWN)


def _is_apache(settings: KubernetesLauncherSettings) -> bool:
    return settings.api_version.startswith(f"{APACHE}/")


def _labels(job: JobArguments, request: RunRequest) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "icemirror",
        "app.kubernetes.io/component": "job",
        "app.kubernetes.io/managed-by": "icemirror-trigger",
        "icemirror/run": job.run_name(request.token),
    }


def _spark_conf(settings: KubernetesLauncherSettings, job: JobArguments) -> dict[str, str]:
    """Return the Spark properties. Secrets use Spark's property: it needs no operator support and no webhook."""
    secrets = {
        f"{PLATFORM_PREFIX}driver.secretKeyRef.{variable}": reference.replace("/", ":")
        for variable, reference in settings.secrets.items()
    }
    return {**job.launch_properties, **secrets}


def _kubeflow_spec(settings: KubernetesLauncherSettings, job: JobArguments, request: RunRequest) -> Object:
    labels = _labels(job, request)
    return {
        "type": "Python",
        "pythonVersion": "3",
        "mode": "cluster",
        "sparkVersion": _SPARK_VERSION,
        "image": settings.image,
        "mainApplicationFile": settings.entry_point,
        "arguments": job.command_line(request),
        "sparkConf": _spark_conf(settings, job),
        "timeToLiveSeconds": int(settings.keep),
        "driver": {
            "serviceAccount": settings.service_account,
            "labels": labels,
            "securityContext": _SECURITY,
        },
        "executor": {"instances": 1, "labels": labels, "securityContext": _SECURITY},
    }


def _apache_spec(settings: KubernetesLauncherSettings, job: JobArguments, request: RunRequest) -> Object:
    labels = _labels(job, request)
    return {
        "pyFiles": settings.entry_point,
        "driverArgs": job.command_line(request),
        "runtimeVersions": {"sparkVersion": _SPARK_VERSION},
        "sparkConf": {
            f"{PLATFORM_PREFIX}authenticate.driver.serviceAccountName": settings.service_account,
            f"{PLATFORM_PREFIX}container.image": settings.image,
            **_spark_conf(settings, job),
        },
        "driverSpec": _apache_pod("driver", labels),
        "executorSpec": _apache_pod("executor", labels),
        "applicationTolerations": {"ttlAfterStopMillis": int(settings.keep * 1000)},
    }


def _apache_pod(role: str, labels: Object) -> Object:
    """Return the pod template. A namespace with restricted pods requires some security fields in each container."""
    pod_fields = ("runAsNonRoot", "runAsUser", "runAsGroup", "seccompProfile")
    container = {
        "name": f"spark-kubernetes-{role}",  # the name that Spark gives its first container
        "securityContext": {key: value for key, value in _SECURITY.items() if key not in pod_fields},
    }
    spec = {"securityContext": {key: _SECURITY[key] for key in pod_fields}, "containers": [container]}
    return {"podTemplateSpec": {"metadata": {"labels": labels}, "spec": spec}}
