"""Workers as job runs of an EMR Serverless application.

A run has the name of its client token, so it is found even if the response to its launch was lost. EMR assigns the
run's id. A job that does not know its id uses its name; names contain `-`, ids do not.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from icemirror.aws_errors import aws_error_code, aws_error_message, is_refused, translate_client_errors
from icemirror.errors import BadConfig, IcemirrorError, Invalid, Transient
from icemirror.protocol.events import RunState
from icemirror.protocol.run_request import RunRequest
from icemirror.settings.trigger import EmrServerlessLauncherSettings
from trigger.launchers.emr_request import log_location, run_state, start_job_run
from trigger.launchers.job_arguments import JobArguments

_RUN_ID = re.compile(r"[0-9a-z]+")
_NOT_FOUND = "ResourceNotFoundException"
_VALIDATION = "ValidationException"
_CONFLICT = "ConflictException"
# An application in one of these states may accept jobs later.
_PENDING_STATES = ("CREATING", "CREATED", "STARTING", "STARTED", "STOPPING", "STOPPED")
_PAGE = 50
_POLL_SECONDS = 10.0  # EMR limits calls, and leases last minutes
_SEARCH_WINDOW_SECONDS = 24 * 3600.0
_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 5, 20, 3


@dataclass(frozen=True, slots=True)
class EmrRun:
    """A job run of the application."""

    id: str
    state: RunState
    created_at: float


class EmrServerlessLauncher:
    """Launches on one application."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 (boto3 creates it at run time)
        settings: EmrServerlessLauncherSettings,
        job: JobArguments,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._settings, self._job, self._clock = client, settings, job, clock
        self._polls: dict[str, tuple[float, RunState]] = {}  # time and result of the last poll, by run id

    def launch(self, request: RunRequest) -> str:
        """Start the run, or find the one that was started with its token."""
        try:
            response = self._client.start_job_run(**start_job_run(self._settings, self._job, request))
            return str(response["jobRunId"])
        except Exception as error:
            code = aws_error_code(error)
            # The token was used with other arguments, those of an older release or configuration.
            if code in (_CONFLICT, _VALIDATION) and (run_id := self.find(request.token)) is not None:
                return run_id
            if code == _VALIDATION and (state := self._application_state()) in _PENDING_STATES:
                raise Transient(
                    f"EMR Serverless did not accept the job: the application is {state}. {aws_error_message(error)}"
                ) from error
            raise self._classify_error(error, "start a job") from error

    def find(self, token: str) -> str | None:
        """Return the run of that token among the recent ones."""
        run = self._find_by_name(self._job.run_name(token))
        return None if run is None else run.id

    def poll(self, run_id: str) -> RunState:
        """Return EMR's state of the run. A run that is queued too long is cancelled."""
        polled_at, state = self._polls.get(run_id, (-math.inf, RunState.UNKNOWN))
        if self._clock() - polled_at < _POLL_SECONDS:
            return state
        run = self._get_run(run_id)
        state = RunState.ENDED if run is None else run.state
        if run is not None and state is RunState.QUEUED and self._age(run) > self._settings.start_timeout:
            self.cancel(run_id)
            state = RunState.ENDED
        if state is RunState.ENDED:
            self._polls.pop(run_id, None)
        else:
            now = self._clock()
            # A run that left its slot is never polled again.
            self._polls = {
                polled_id: poll for polled_id, poll in self._polls.items() if now - poll[0] < _POLL_SECONDS
            }
            self._polls[run_id] = (now, state)
        return state

    def log_location(self, run_id: str) -> str:
        """Return where EMR writes the driver's output."""
        return log_location(self._settings, run_id)

    def cancel(self, run_id: str) -> None:
        """Cancel the run."""
        self._polls.pop(run_id, None)
        try:
            run = self._get_run(run_id)
            if run is not None and run.state is not RunState.ENDED:
                self._client.cancel_job_run(applicationId=self._settings.application_id, jobRunId=run.id)
        except Exception as error:
            if aws_error_code(error) not in (_NOT_FOUND, _VALIDATION):  # it has ended in the meantime
                raise self._classify_error(error, f"cancel the job run {run_id}") from error

    def _get_run(self, run_id: str) -> EmrRun | None:
        """Return a run by its id or name."""
        if not _RUN_ID.fullmatch(run_id):
            return self._find_by_name(run_id)
        try:
            response = self._client.get_job_run(applicationId=self._settings.application_id, jobRunId=run_id)
        except Exception as error:
            if aws_error_code(error) == _NOT_FOUND:
                return None
            raise self._classify_error(error, f"get the status of job run {run_id}") from error
        return _read_run(run_id, response["jobRun"])

    def _find_by_name(self, name: str) -> EmrRun | None:
        """Return a run by its name; of several, the one that has not ended."""
        max_age_seconds = self._settings.timeout + self._settings.start_timeout + _SEARCH_WINDOW_SECONDS
        min_created_at = datetime.fromtimestamp(self._clock(), UTC) - timedelta(seconds=max_age_seconds)
        ended_run: EmrRun | None = None
        try:
            pages = self._client.get_paginator("list_job_runs").paginate(
                applicationId=self._settings.application_id,
                createdAtAfter=min_created_at,
                PaginationConfig={"PageSize": _PAGE},
            )
            for page in pages:
                for summary in page["jobRuns"]:
                    if summary.get("name") == name:
                        run = _read_run(str(summary["id"]), summary)
                        if run.state is not RunState.ENDED:
                            return run
                        ended_run = run
        except Exception as error:
            raise self._classify_error(error, "list job runs") from error
        return ended_run

    def _age(self, run: EmrRun) -> float:
        return self._clock() - run.created_at

    def _application_state(self) -> str:
        try:
            response = self._client.get_application(applicationId=self._settings.application_id)
        except Exception:
            return ""  # then the first error is reported
        return str(response["application"]["state"])

    def _classify_error(self, error: Exception, action: str) -> IcemirrorError:
        """Return the icemirror error for a failed call."""
        if isinstance(error, IcemirrorError):
            return error
        code, application = aws_error_code(error) or type(error).__name__, self._settings.application_id
        if is_refused(error):
            text = aws_error_message(error) or f"{error}."
            return Invalid(
                f"AWS refused to {action} on EMR Serverless ({code}): {text} Check the credentials. Grant the trigger "
                "emr-serverless:StartJobRun, GetJobRun, ListJobRuns, CancelJobRun, TagResource and GetApplication, and "
                f"iam:PassRole on {self._settings.execution_role_arn}. Application: {application}"
            )
        if code == _NOT_FOUND:
            return Invalid(
                f"there is no EMR Serverless application {application} in this account and region: check "
                "trigger.launcher.application_id and region"
            )
        if code == _VALIDATION:
            return Invalid(
                f"EMR Serverless refused to {action}: {aws_error_message(error)} Check trigger.launcher"
            )
        return Transient(f"EMR Serverless did not {action}: {code} {aws_error_message(error)}".rstrip())


def _read_run(run_id: str, description: Mapping[str, Any]) -> EmrRun:  # Any: AWS' JSON
    return EmrRun(run_id, run_state(description["state"]), float(description["createdAt"].timestamp()))


def open_emr_serverless(settings: EmrServerlessLauncherSettings, job: JobArguments) -> EmrServerlessLauncher:
    """Open the launcher with its AWS client."""
    try:
        import boto3
        from botocore.config import Config
    except ModuleNotFoundError:
        raise BadConfig(
            "trigger.launcher: emr-serverless needs boto3: pip install 'icemirror[aws]'"
        ) from None
    limits = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "max_attempts": _ATTEMPTS},
    )
    with translate_client_errors("trigger.launcher", "region"):
        client = boto3.client(
            "emr-serverless", region_name=settings.region, endpoint_url=settings.endpoint, config=limits
        )
    return EmrServerlessLauncher(client, settings, job)
