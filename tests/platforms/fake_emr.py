"""A fake of EMR Serverless' boto3 client: validates requests against AWS' model, and starts one run per token."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

import botocore.session
from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.validate import ParamValidator

APPLICATION = "00fapp1"
MESSAGES = {
    "ThrottlingException": "Rate exceeded",
    "AccessDeniedException": "User is not authorized",
    "InternalServerException": "Internal error",
}
ENDED = ("SUCCESS", "FAILED", "CANCELLED")

Response = TypeVar("Response")


@cache
def shape(operation: str) -> Any:
    """Return AWS' model of an operation's input."""
    return (
        botocore.session.get_session()
        .get_service_model("emr-serverless")
        .operation_model(operation)
        .input_shape
    )


def refused(code: str, message: str = "", operation: str = "Any") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message or MESSAGES.get(code, "")}}, operation)


@dataclass
class JobRun:
    """A job run and its request."""

    id: str
    request: dict[str, Any]
    created_at: datetime
    state: str = "SUBMITTED"

    @property
    def arguments(self) -> list[str]:
        given: list[str] = self.request["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        return given

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables that EMR adds to the job's environment."""
        return {"SERVERLESS_EMR_JOB_ID": self.id}


class FakeEmr:
    """One application. `faults` are the errors of the next calls: an AWS error code, or "lost" (done without response).

    `pause` is called before and after every effect.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.runs: dict[str, JobRun] = {}
        self.faults: list[str] = []
        self.calls: list[str] = []
        self.application = "STARTED"
        self.forgets = False
        self.pause: Callable[[str], None] = lambda _: None

    # --- methods of the boto3 client ---------------------------------------------------------------------------------

    def start_job_run(self, **given: Any) -> dict[str, str]:
        with_response = self._enter("StartJobRun", given)
        self._check_strings(given)
        same = [run for run in self.runs.values() if run.request["clientToken"] == given["clientToken"]]
        if same and not self.forgets:
            if same[0].request != given:
                raise refused("ConflictException", "A different request has used this client token")
            return with_response({"jobRunId": same[0].id})
        if self.application in ("STOPPED", "STOPPING", "TERMINATED"):
            raise refused("ValidationException", f"Application {APPLICATION} is {self.application}")
        run = JobRun(f"00fr{len(self.runs):04d}", given, self._now())
        self.runs[run.id] = run
        return with_response({"jobRunId": run.id})

    def get_job_run(self, **given: Any) -> dict[str, Any]:
        with_response = self._enter("GetJobRun", given)
        run = self._run(given["jobRunId"])
        return with_response(
            {"jobRun": {"jobRunId": run.id, "state": run.state, "createdAt": run.created_at}}
        )

    def cancel_job_run(self, **given: Any) -> dict[str, Any]:
        with_response = self._enter("CancelJobRun", given)
        run = self._run(given["jobRunId"])
        if run.state in ENDED:
            raise refused("ValidationException", f"Job run is {run.state}")
        run.state = "CANCELLING"
        return with_response({})

    def get_application(self, **given: Any) -> dict[str, Any]:
        return self._enter("GetApplication", given)({"application": {"state": self.application}})

    def get_paginator(self, name: str) -> FakeEmr:
        assert name == "list_job_runs"
        return self

    def paginate(self, *, PaginationConfig: Mapping[str, int], **given: Any) -> Iterator[dict[str, Any]]:  # noqa: N803
        size = PaginationConfig["PageSize"]
        found = [run for run in self.runs.values() if run.created_at >= given["createdAtAfter"]]
        found.reverse()
        for start in range(0, max(len(found), 1), size):
            with_response = self._enter("ListJobRuns", {**given, "maxResults": size})
            page = [
                {"id": run.id, "name": run.request["name"], "state": run.state, "createdAt": run.created_at}
                for run in found[start : start + size]
            ]
            yield with_response({"jobRuns": page})

    # --- implementation --------------------------------------------------------------------------------------------

    def _enter(self, operation: str, given: dict[str, Any]) -> Callable[[Response], Response]:
        self.pause(f"before {operation}")
        self.calls.append(operation)
        report = ParamValidator().validate(given, shape(operation))
        assert not report.has_errors(), report.generate_report()
        if given["applicationId"] != APPLICATION:
            raise refused("ResourceNotFoundException", "Application does not exist")
        fault = self.faults.pop(0) if self.faults else ""
        if fault and fault != "lost":
            raise refused(fault, operation=operation)

        def respond(value: Response) -> Response:
            self.pause(f"after {operation}")
            if fault == "lost":
                raise ReadTimeoutError(endpoint_url="https://emr-serverless")
            return value

        return respond

    def _check_strings(self, given: Mapping[str, Any]) -> None:
        """Check patterns and maximum lengths, as the service does and boto3 does not."""
        for name, member in shape("StartJobRun").members.items():
            if name in given and member.type_name == "string":
                assert len(given[name]) <= member.metadata.get("max", 1 << 20), name
                assert re.fullmatch(member.metadata.get("pattern", ".*"), given[name]), name
        for tag, value in given["tags"].items():
            assert re.fullmatch(r"[A-Za-z0-9 _.:/=+@-]{1,256}", value), tag

    def _run(self, run_id: str) -> JobRun:
        if run_id not in self.runs:
            raise refused("ResourceNotFoundException", "Job run does not exist")
        return self.runs[run_id]

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)
