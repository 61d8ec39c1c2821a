"""The arguments of a job on every platform: its request, the configuration, and the name of its run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from icemirror.config_file.job_config import config_for_job
from icemirror.config_file.packing import pack_arguments
from icemirror.protocol.run_request import RunRequest
from icemirror.settings import Settings
from icemirror.settings.masking import mask_properties
from icemirror.settings.model import LAUNCH_PROPERTIES
from icemirror.telemetry.logs import get_log

_GROUP_CHARACTERS = 16
_HASH_CHARACTERS = 6
# Platforms size executors by these.
_PLATFORM_PREFIXES = ("spark.executor.", "spark.dynamicAllocation.")

log = get_log(__name__)


def name_run(token: str, deployment: str) -> str:
    """Return `icemirror-<group>-<slot>-<gen>-<hash>`: at most 50 characters, valid as Kubernetes and AWS names.

    A token always gets the same name. The hash distinguishes groups that are equal when shortened, and deployments
    that share a platform.
    """
    group, slot, gen = token.rsplit("-", 2)
    group_slug = re.sub(r"[^a-z0-9]+", "-", group.lower())[:_GROUP_CHARACTERS].strip("-") or "x"
    digest = hashlib.sha256(f"{deployment}\n{token}".encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"icemirror-{group_slug}-{slot}-{gen}-{digest}"


@dataclass(frozen=True)
class JobArguments:
    """The arguments that all jobs of a trigger share. They contain no secret."""

    deployment: str
    config: tuple[str, ...]
    launch_properties: Mapping[str, str]

    def run_name(self, token: str) -> str:
        """Return the run's name on the platform."""
        return name_run(token, self.deployment)

    def command_line(self, request: RunRequest) -> list[str]:
        """Return the arguments of `icemirror_job.py`."""
        return [
            "--request",
            request.model_dump_json(),
            "--run-id",
            self.run_name(request.token),
            "--config",
            *self.config,
        ]


def job_arguments(
    settings: Settings, environ: Mapping[str, str], provided_variables: Collection[str], platform_prefix: str
) -> JobArguments:
    """Return the arguments for these settings.

    `provided_variables`: the environment variables that the launcher sets for jobs. Spark properties with
    `platform_prefix` are for the platform, which reads them before the job runs.
    """
    config = config_for_job(settings, environ)
    if missing := sorted(config.variables - set(provided_variables)):
        log.warning(
            "job environment variables missing",
            variables=missing,
            advice="set them with trigger.launcher.secrets, in the image or on the platform",
        )
    spark = settings.job.spark
    public_names = {name for name, value in mask_properties(spark).items() if value == spark[name]}
    prefixes = (*LAUNCH_PROPERTIES, *_PLATFORM_PREFIXES, platform_prefix)
    launch_properties = {name: spark[name] for name in sorted(public_names) if name.startswith(prefixes)}
    return JobArguments(
        f"{settings.project_ref}/{settings.environment}", pack_arguments(config.text), launch_properties
    )
