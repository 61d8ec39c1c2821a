"""What every platform tells a job: its request, the configuration, and the name of its run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from icemirror.run_request import RunRequest
from icemirror.settings import Settings
from icemirror.settings.for_job import for_job, pack
from icemirror.settings.masking import mask_properties
from icemirror.spark_properties import AT_START
from icemirror.telemetry.logs import get_log
from trigger.launchers.run_names import name_run

# Platforms make room for executors by these.
_OF_PLATFORMS = ("spark.executor.", "spark.dynamicAllocation.")

log = get_log(__name__)


@dataclass(frozen=True)
class JobArguments:
    """The same for all jobs of a trigger: no secret is in here."""

    deployment: str
    config: tuple[str, ...]
    spark_at_start: Mapping[str, str]

    def name(self, token: str) -> str:
        """The run's name on the platform."""
        return name_run(token, self.deployment)

    def of(self, request: RunRequest) -> list[str]:
        """The arguments of `icemirror_job.py`."""
        return [
            "--request",
            request.model_dump_json(),
            "--run-id",
            self.name(request.token),
            "--config",
            *self.config,
        ]


def job_arguments(
    settings: Settings, environ: Mapping[str, str], given: Collection[str], own_prefix: str
) -> JobArguments:
    """The arguments for these settings.

    `given` are the environment variables that the launcher gives to jobs; properties of Spark with `own_prefix` are
    for the platform, which reads them before the job runs.
    """
    sent = for_job(settings, environ)
    if missing := sorted(sent.variables - set(given)):
        log.warning(
            "jobs need environment variables that trigger.launcher.secrets does not give; "
            "the image or the platform has to",
            variables=missing,
        )
    spark = settings.job.spark
    shown = {name for name, value in mask_properties(spark).items() if value == spark[name]}
    first = (*AT_START, *_OF_PLATFORMS, own_prefix)
    at_start = {name: spark[name] for name in sorted(shown) if name.startswith(first)}
    return JobArguments(f"{settings.project_ref}/{settings.environment}", pack(sent.text), at_start)
