"""Workers as job runs of an EMR Serverless application.

A run is named like its client token, so that it is found again however its launch ended. Its id is EMR's own; a job
that was not told it goes by its name, which has letters (`-`) that no id has.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from icemirror.aws_refusals import code_of, is_refused, making_client, text_of
from icemirror.errors import BadConfig, IcemirrorError, Invalid, Transient
from icemirror.run_request import RunRequest
from icemirror.settings.trigger import EmrServerlessLauncher
from icemirror.state.events import RunState
from trigger.launchers.emr_request import log_of, run_state, start_job_run
from trigger.launchers.job_arguments import JobArguments

_RUN_ID = re.compile(r"[0-9a-z]+")
_NOT_FOUND = "ResourceNotFoundException"
_MISUSED = "ValidationException"
_CONFLICT = "ConflictException"
# An application in one of these may still take jobs later.
_NOT_YET = ("CREATING", "CREATED", "STARTING", "STARTED", "STOPPING", "STOPPED")
_PAGE = 50
_ASK_AGAIN_SECONDS = 10.0  # EMR counts calls, and a lease is minutes
_LOOK_BACK_SECONDS = 24 * 3600.0
_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 5, 20, 3


class EmrServerless:
    """Launches on one application."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 (boto3 makes it at run time)
        settings: EmrServerlessLauncher,
        job: JobArguments,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._settings, self._job, self._clock = client, settings, job, clock
        self._seen: dict[str, tuple[float, RunState]] = {}

    def launch(self, request: RunRequest) -> str:
        """Starts the run, or finds the one that was started with its token."""
        try:
            started = self._client.start_job_run(**start_job_run(self._settings, self._job, request))
            return str(started["jobRunId"])
        except Exception as error:
            code = code_of(error)
            # The token was used before, with other arguments: those of an older release, or configuration.
            if code in (_CONFLICT, _MISUSED) and (known := self.find(request.token)) is not None:
                return known
            if code == _MISUSED and (state := self._application_state()) in _NOT_YET:
                raise Transient(
                    f"EMR Serverless did not take the job: the application is {state}. {text_of(error)}"
                ) from error
            raise self._named(error, "start a job") from error

    def find(self, token: str) -> str | None:
        """The run of that name among those that may still matter."""
        found = self._find(self._job.name(token))
        return None if found is None else str(found["id"])

    def poll(self, run_id: str) -> RunState:
        """How EMR says the run is. One that waits too long for its start is ended."""
        asked_at, state = self._seen.get(run_id, (-math.inf, RunState.UNKNOWN))
        if self._clock() - asked_at < _ASK_AGAIN_SECONDS:
            return state
        found = self._look_up(run_id)
        state = RunState.GONE if found is None else run_state(found["state"])
        if found is not None and state is RunState.QUEUED and self._age(found) > self._settings.start_timeout:
            self.cancel(run_id)
            state = RunState.GONE
        if state is RunState.GONE:
            self._seen.pop(run_id, None)
        else:
            now = self._clock()
            # A run that leaves its slot is never asked about again.
            self._seen = {
                known: seen for known, seen in self._seen.items() if now - seen[0] < _ASK_AGAIN_SECONDS
            }
            self._seen[run_id] = (now, state)
        return state

    def log_of(self, run_id: str) -> str:
        """Where EMR puts the driver's output."""
        return log_of(self._settings, run_id)

    def cancel(self, run_id: str) -> None:
        """Asks EMR to end the run."""
        self._seen.pop(run_id, None)
        try:
            found = self._look_up(run_id)
            if found is not None and run_state(found["state"]) is not RunState.GONE:
                self._client.cancel_job_run(applicationId=self._settings.application_id, jobRunId=found["id"])
        except Exception as error:
            if code_of(error) not in (_NOT_FOUND, _MISUSED):  # it has ended meanwhile
                raise self._named(error, f"cancel the job run {run_id}") from error

    def _look_up(self, run_id: str) -> dict[str, Any] | None:
        """Id, state and time of a run, by its id or its name."""
        if not _RUN_ID.fullmatch(run_id):
            return self._find(run_id)
        try:
            answer = self._client.get_job_run(applicationId=self._settings.application_id, jobRunId=run_id)
        except Exception as error:
            if code_of(error) == _NOT_FOUND:
                return None
            raise self._named(error, f"ask about the job run {run_id}") from error
        run = answer["jobRun"]
        return {"id": run_id, "state": run["state"], "createdAt": run["createdAt"]}

    def _find(self, name: str) -> dict[str, Any] | None:
        """A run by its name; of several the one that has not ended."""
        oldest = self._settings.timeout + self._settings.start_timeout + _LOOK_BACK_SECONDS
        after = datetime.fromtimestamp(self._clock(), UTC) - timedelta(seconds=oldest)
        ended: dict[str, Any] | None = None
        try:
            pages = self._client.get_paginator("list_job_runs").paginate(
                applicationId=self._settings.application_id,
                createdAtAfter=after,
                PaginationConfig={"PageSize": _PAGE},
            )
            for page in pages:
                for run in page["jobRuns"]:
                    if run.get("name") == name:
                        if run_state(run["state"]) is not RunState.GONE:
                            return dict(run)
                        ended = dict(run)
        except Exception as error:
            raise self._named(error, "list job runs") from error
        return ended

    def _age(self, run: dict[str, Any]) -> float:
        return self._clock() - float(run["createdAt"].timestamp())

    def _application_state(self) -> str:
        try:
            answer = self._client.get_application(applicationId=self._settings.application_id)
        except Exception:
            return ""  # then the first error says it all
        return str(answer["application"]["state"])

    def _named(self, error: Exception, what: str) -> IcemirrorError:
        """The failure of a call, by what to do about it."""
        if isinstance(error, IcemirrorError):
            return error
        code, application = code_of(error) or type(error).__name__, self._settings.application_id
        if is_refused(error):
            said = text_of(error) or f"{error}."
            return Invalid(
                f"AWS refused to {what} on EMR Serverless ({code}): {said} The trigger needs "
                "emr-serverless:StartJobRun, GetJobRun, ListJobRuns, CancelJobRun, TagResource and GetApplication "
                f"on the application {application}, iam:PassRole on {self._settings.execution_role_arn}, "
                "and valid credentials"
            )
        if code == _NOT_FOUND:
            return Invalid(
                f"there is no EMR Serverless application {application} in this account and region: check "
                "trigger.launcher.application_id and region"
            )
        if code == _MISUSED:
            return Invalid(f"EMR Serverless refused to {what}: {text_of(error)} Check trigger.launcher")
        return Transient(f"EMR Serverless did not {what}: {code} {text_of(error)}".rstrip())


def open_emr_serverless(settings: EmrServerlessLauncher, job: JobArguments) -> EmrServerless:
    """The launcher with a client of its own."""
    try:
        import boto3
        from botocore.config import Config
    except ModuleNotFoundError:
        raise BadConfig(
            "trigger.launcher: emr-serverless needs boto3: pip install 'icemirror[aws]'"
        ) from None
    patience = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "max_attempts": _ATTEMPTS},
    )
    with making_client("trigger.launcher", "region"):
        client = boto3.client(
            "emr-serverless", region_name=settings.region, endpoint_url=settings.endpoint, config=patience
        )
    return EmrServerless(client, settings, job)
