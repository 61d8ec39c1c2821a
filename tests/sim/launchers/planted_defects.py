"""Defects planted in the launchers and in the job's arguments; the simulation must detect each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from icemirror.protocol.events import RunState
from trigger.launchers import emr_request, emr_serverless, kubernetes, spark_application
from trigger.launchers.job_arguments import JobArguments

_KUBEFLOW_STATES: dict[str, RunState] = vars(spark_application)["_KUBEFLOW_STATES"]
_EMR_STATES: dict[str, RunState] = vars(emr_request)["_STATES"]


@contextmanager
def new_token_for_each_call() -> Iterator[None]:
    """Give a repeated launch a new client token."""
    count, original = itertools.count(), emr_request.start_job_run

    def defective(*arguments: Any) -> dict[str, Any]:
        return {**original(*arguments), "clientToken": f"token-{next(count)}"}

    without_find = patch.object(emr_serverless.EmrServerlessLauncher, "find", lambda *_: None)
    with patch.object(emr_serverless, "start_job_run", defective), without_find:
        yield


@contextmanager
def new_name_for_each_call() -> Iterator[None]:
    """Give a repeated launch a new object name."""
    count, original = itertools.count(), spark_application.spark_application

    def defective(settings: Any, job: Any, request: Any) -> dict[str, Any]:
        request_body = original(settings, job, request)
        request_body["metadata"]["name"] += f"-{next(count)}"
        return request_body

    with patch.object(kubernetes, "spark_application", defective):
        yield


def queued_counts_as_ended_on_emr() -> AbstractContextManager[Any]:
    return patch.dict(_EMR_STATES, {"SUBMITTED": RunState.ENDED})


def queued_counts_as_ended_on_kubernetes() -> AbstractContextManager[Any]:
    return patch.dict(_KUBEFLOW_STATES, {"": RunState.ENDED})


def ended_counts_as_running_on_kubernetes() -> AbstractContextManager[Any]:
    return patch.dict(_KUBEFLOW_STATES, {"FAILED": RunState.RUNNING, "COMPLETED": RunState.RUNNING})


@contextmanager
def runs_known_by_id_only() -> Iterator[None]:
    """Do not find a job that uses its name as run id."""
    original = emr_serverless.EmrServerlessLauncher._get_run

    def defective(self: Any, run_id: str) -> Any:
        return None if "-" in run_id else original(self, run_id)

    with patch.object(emr_serverless.EmrServerlessLauncher, "_get_run", defective):
        yield


@contextmanager
def job_uses_unknown_run_id() -> Iterator[None]:
    """Let a job write a run id into its slot that the platform does not know."""
    original = JobArguments.command_line

    def defective(self: JobArguments, request: Any) -> list[str]:
        arguments = original(self, request)
        arguments[arguments.index("--run-id") + 1] = request.token
        return arguments

    with patch.object(JobArguments, "command_line", defective):
        yield


@contextmanager
def never_cancelled() -> Iterator[None]:
    """Never cancel a run that never starts."""
    with patch.object(emr_serverless.EmrServerlessLauncher, "_age", lambda *_: 0.0):
        yield


PLANTED = {
    "a new client token for each call": new_token_for_each_call,
    "a new name for each call": new_name_for_each_call,
    "queued counts as ended on EMR": queued_counts_as_ended_on_emr,
    "queued counts as ended on Kubernetes": queued_counts_as_ended_on_kubernetes,
    "ended counts as running on Kubernetes": ended_counts_as_running_on_kubernetes,
    "runs are known by id only": runs_known_by_id_only,
    "a job uses an unknown run id": job_uses_unknown_run_id,
    "a run that never starts is never cancelled": never_cancelled,
}
