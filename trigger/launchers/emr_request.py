"""What EMR Serverless is asked for, and what its answers mean."""

from __future__ import annotations

import math
import re
from typing import Any

from icemirror.run_request import RunRequest
from icemirror.settings.trigger import EmrServerlessLauncher
from icemirror.state.events import RunState
from trigger.launchers.job_arguments import JobArguments

PREFIX = "spark.emr-serverless."
_OF_TIMEOUT = 0.9
_ENVIRONMENT = "environment"  # where the first archive is unpacked
_SECRET = "EMR.secret@"  # noqa: S105 (how EMR is told to look a value up in Secrets Manager)

_STATES = {
    "SUBMITTED": RunState.QUEUED,
    "PENDING": RunState.QUEUED,
    "SCHEDULED": RunState.QUEUED,
    "QUEUED": RunState.QUEUED,
    "RUNNING": RunState.RUNNING,
    "SUCCESS": RunState.GONE,
    "FAILED": RunState.GONE,
    "CANCELLING": RunState.GONE,
    "CANCELLED": RunState.GONE,
}


def run_state(state: str) -> RunState:
    """What EMR's word for a state means to us; of a word that is new, nobody knows."""
    return _STATES.get(state, RunState.UNKNOWN)


def start_job_run(settings: EmrServerlessLauncher, job: JobArguments, request: RunRequest) -> dict[str, Any]:
    """The arguments of `StartJobRun`. The same request gives the same, since its token may be sent again."""
    name = job.name(request.token)
    overrides: dict[str, Any] = {  # Any: AWS' own shapes
        "applicationConfiguration": [
            {"classification": "spark-defaults", "properties": spark_properties(settings, job)}
        ]
    }
    if monitoring := _monitoring(settings):
        overrides["monitoringConfiguration"] = monitoring
    if settings.disk_key_arn is not None:
        overrides["diskEncryptionConfiguration"] = {"encryptionKeyArn": settings.disk_key_arn}
    return {
        "applicationId": settings.application_id,
        "clientToken": name,
        "name": name,
        "executionRoleArn": settings.execution_role_arn,
        "executionTimeoutMinutes": math.ceil(settings.timeout / 60),
        "mode": "BATCH",
        "retryPolicy": {"maxAttempts": 1},  # who is launched again is for the protocol to say
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": settings.entry_point,
                # One that is always busy gives back what it has before EMR ends it in the middle of a slice.
                "entryPointArguments": [
                    "--stop-after",
                    f"{settings.timeout * _OF_TIMEOUT:.0f}",
                    *job.of(request),
                ],
            }
        },
        "configurationOverrides": overrides,
        "tags": {
            "icemirror-deployment": _tag(job.deployment),
            "icemirror-group": _tag(request.group),
            **settings.tags,
        },
    }


def _monitoring(settings: EmrServerlessLauncher) -> dict[str, Any]:
    """Where logs go, and the key of those that EMR keeps for a month whatever is said."""
    found: dict[str, Any] = {}
    if settings.log_uri is not None:
        found["s3MonitoringConfiguration"] = {"logUri": settings.log_uri}
    if settings.log_key_arn is not None:
        found["managedPersistenceMonitoringConfiguration"] = {"encryptionKeyArn": settings.log_key_arn}
    return found


def _tag(text: str) -> str:
    """The text with the letters that AWS allows in a tag."""
    return re.sub(r"[^A-Za-z0-9 _.:/=+@-]", "_", text)[:256]


def spark_properties(settings: EmrServerlessLauncher, job: JobArguments) -> dict[str, str]:
    """What Spark must know before the job runs; the job sets the rest of `job.spark` by itself."""
    properties = dict(job.spark_at_start)
    if settings.archives:
        first, *others = settings.archives
        named = first if "#" in first else f"{first}#{_ENVIRONMENT}"
        properties |= {"spark.archives": ",".join((named, *others))}
        properties |= _run_by(f"./{named.rpartition('#')[2]}/bin/python")
    else:  # what a custom image says of it in its own environment does not reach Spark
        properties = _run_by(settings.python) | properties
    secrets = {
        f"{PREFIX}driverEnv.{variable}": f"{_SECRET}{secret}" for variable, secret in settings.secrets.items()
    }
    return properties | secrets


def _run_by(python: str) -> dict[str, str]:
    """The properties that let this Python run driver and executors."""
    return {
        f"{PREFIX}driverEnv.PYSPARK_DRIVER_PYTHON": python,
        f"{PREFIX}driverEnv.PYSPARK_PYTHON": python,
        "spark.executorEnv.PYSPARK_PYTHON": python,
    }


def log_of(settings: EmrServerlessLauncher, run_id: str) -> str:
    """Where the driver's output is, once the job has ended."""
    if settings.log_uri is None:
        return f"job run {run_id} of the EMR Serverless application {settings.application_id}"
    folder = f"{settings.log_uri.rstrip('/')}/applications/{settings.application_id}/jobs/{run_id}"
    return f"{folder}/SPARK_DRIVER/stderr.gz"
