"""Requests to EMR Serverless, and the meaning of its job run states."""

from __future__ import annotations

import math
import re
from typing import Any

from icemirror.protocol.events import RunState
from icemirror.protocol.run_request import RunRequest
from icemirror.settings.trigger import EmrServerlessLauncherSettings
from trigger.launchers.job_arguments import JobArguments

PLATFORM_PREFIX = "spark.emr-serverless."
_STOP_AFTER_SHARE = 0.9  # of the timeout
_ENVIRONMENT = "environment"  # where the first archive is unpacked
_SECRET_PREFIX = "EMR.secret@"  # noqa: S105 (EMR reads the value from Secrets Manager)

_STATES = {
    "SUBMITTED": RunState.QUEUED,
    "PENDING": RunState.QUEUED,
    "SCHEDULED": RunState.QUEUED,
    "QUEUED": RunState.QUEUED,
    "RUNNING": RunState.RUNNING,
    "SUCCESS": RunState.ENDED,
    "FAILED": RunState.ENDED,
    "CANCELLING": RunState.ENDED,
    "CANCELLED": RunState.ENDED,
}


def run_state(state: str) -> RunState:
    """Return the run state for EMR's state; a new state is unknown."""
    return _STATES.get(state, RunState.UNKNOWN)


def start_job_run(
    settings: EmrServerlessLauncherSettings, job: JobArguments, request: RunRequest
) -> dict[str, Any]:
    """Return the arguments of `StartJobRun`. Equal requests give equal arguments, since a token may be sent again."""
    name = job.run_name(request.token)
    overrides: dict[str, Any] = {  # Any: AWS' JSON
        "applicationConfiguration": [
            {"classification": "spark-defaults", "properties": spark_properties(settings, job)}
        ]
    }
    if monitoring := _monitoring_configuration(settings):
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
        "retryPolicy": {"maxAttempts": 1},  # the protocol decides what is launched again
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": settings.entry_point,
                # A busy job releases its table before EMR ends it in the middle of a slice.
                "entryPointArguments": [
                    "--stop-after",
                    f"{settings.timeout * _STOP_AFTER_SHARE:.0f}",
                    *job.command_line(request),
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


def _monitoring_configuration(settings: EmrServerlessLauncherSettings) -> dict[str, Any]:
    """Return where logs are written, and the key of the logs that EMR always keeps for a month."""
    monitoring: dict[str, Any] = {}
    if settings.log_uri is not None:
        monitoring["s3MonitoringConfiguration"] = {"logUri": settings.log_uri}
    if settings.log_key_arn is not None:
        monitoring["managedPersistenceMonitoringConfiguration"] = {"encryptionKeyArn": settings.log_key_arn}
    return monitoring


def _tag(text: str) -> str:
    """Return the text without the characters that AWS does not allow in a tag."""
    return re.sub(r"[^A-Za-z0-9 _.:/=+@-]", "_", text)[:256]


def spark_properties(settings: EmrServerlessLauncherSettings, job: JobArguments) -> dict[str, str]:
    """Return the properties that Spark needs before the job runs; the job sets the others of `job.spark`."""
    properties = dict(job.launch_properties)
    if settings.archives:
        first, *others = settings.archives
        environment = first if "#" in first else f"{first}#{_ENVIRONMENT}"
        properties |= {"spark.archives": ",".join((environment, *others))}
        properties |= _python_properties(f"./{environment.rpartition('#')[2]}/bin/python")
    else:  # Spark does not see the variables of a custom image
        properties = _python_properties(settings.python) | properties
    secrets = {
        f"{PLATFORM_PREFIX}driverEnv.{variable}": f"{_SECRET_PREFIX}{secret}"
        for variable, secret in settings.secrets.items()
    }
    return properties | secrets


def _python_properties(python: str) -> dict[str, str]:
    """Return the properties that let this Python run driver and executors."""
    return {
        f"{PLATFORM_PREFIX}driverEnv.PYSPARK_DRIVER_PYTHON": python,
        f"{PLATFORM_PREFIX}driverEnv.PYSPARK_PYTHON": python,
        "spark.executorEnv.PYSPARK_PYTHON": python,
    }


def log_location(settings: EmrServerlessLauncherSettings, run_id: str) -> str:
    """Return where the driver's output is after the job has ended."""
    if settings.log_uri is None:
        return f"job run {run_id} of the EMR Serverless application {settings.application_id}"
    folder = f"{settings.log_uri.rstrip('/')}/applications/{settings.application_id}/jobs/{run_id}"
    return f"{folder}/SPARK_DRIVER/stderr.gz"
