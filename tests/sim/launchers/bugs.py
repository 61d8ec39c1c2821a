"""Bugs planted in the launchers and in the job's arguments; the simulation must find each."""

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
    """A repeated launch has a new client token."""
    count, right = itertools.count(), emr_request.start_job_run

    def wrong(*given: Any) -> dict[str, Any]:
        return {**right(*given), "clientToken": f"token-{next(count)}"}

    blind = patch.object(emr_serverless.EmrServerlessLauncher, "find", lambda *_: None)
    with patch.object(emr_serverless, "start_job_run", wrong), blind:
        yield


@contextmanager
def new_name_for_each_call() -> Iterator[None]:
    """A repeated launch has a new object name."""
    count, right = itertools.count(), spark_application.spark_application

    def wrong(settings: Any, job: Any, request: Any) -> dict[str, Any]:
        given = right(settings, job, request)
        given["metadata"]["name"] += f"-{next(count)}"
        return given

    with patch.object(kubernetes, "spark_application", wrong):
        yield


def queued_is_gone_on_emr() -> AbstractContextManager[Any]:
    return patch.dict(_EMR_STATES, {"SUBMITTED": RunState.ENDED})


def queued_is_gone_on_kubernetes() -> AbstractContextManager[Any]:
    return patch.dict(_KUBEFLOW_STATES, {"": RunState.ENDED})


def ended_is_running_on_kubernetes() -> AbstractContextManager[Any]:
    return patch.dict(_KUBEFLOW_STATES, {"FAILED": RunState.RUNNING, "COMPLETED": RunState.RUNNING})


@contextmanager
def runs_known_by_id_only() -> Iterator[None]:
    """A job that uses its name as run id is not found."""
    right = emr_serverless.EmrServerlessLauncher._get_run

    def wrong(self: Any, run_id: str) -> Any:
        return None if "-" in run_id else right(self, run_id)

    with patch.object(emr_serverless.EmrServerlessLauncher, "_get_run", wrong):
        yield


@contextmanager
def job_uses_unknown_run_id() -> Iterator[None]:
    """A job writes a run id into its slot that the platform does not know."""
    right = JobArguments.build

    def wrong(self: JobArguments, request: Any) -> list[str]:
        given = right(self, request)
        given[given.index("--run-id") + 1] = request.token
        return given

    with patch.object(JobArguments, "build", wrong):
        yield


@contextmanager
def waits_for_ever() -> Iterator[None]:
    """A run that never starts is never cancelled."""
    with patch.object(emr_serverless.EmrServerlessLauncher, "_age", lambda *_: 0.0):
        yield


BUGS = {
    "a new client token for each call": new_token_for_each_call,
    "a new name for each call": new_name_for_each_call,
    "queued counts as gone on EMR": queued_is_gone_on_emr,
    "queued counts as gone on Kubernetes": queued_is_gone_on_kubernetes,
    "ended counts as running on Kubernetes": ended_is_running_on_kubernetes,
    "runs are known by id only": runs_known_by_id_only,
    "a job uses an unknown run id": job_uses_unknown_run_id,
    "a run that never starts is never cancelled": waits_for_ever,
}
