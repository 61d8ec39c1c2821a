"""Permissions that the recorded run does not use, and why a role has them all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_EMR = "EMR does this in the job's name, before and after it runs"
_LAMBDA = "Lambda does this in the function's name"
_OLD = "results and dead letters that are too old go"
_CUT = "an upload that fails halfway is given up"
_LOGS = "EMR writes logs into an encrypted bucket, and reads the job's code there"
_STATE = "DynamoDB wants it of whoever uses an encrypted table"
_DISKS = "EMR encrypts the job's disks in its name"


@dataclass(frozen=True)
class Explained:
    """By statement, for all of it or for single actions."""

    statements: Mapping[str, str]
    actions: Mapping[tuple[str, str], str]


EXPLAINED = {
    "trigger": Explained(
        {"ReadEvents": _LAMBDA, "WriteLogs": _LAMBDA},
        {
            ("KeepState", "dynamodb:DeleteItem"): _OLD,
            ("LaunchJobs", "emr-serverless:GetApplication"): "why a launch was refused is looked up",
            ("LaunchJobs", "emr-serverless:ListJobRuns"): "a launch without an answer is looked for",
            ("LookAfterJobs", "emr-serverless:CancelJobRun"): "a job that its slot has given up is ended",
            ("UseKey", "kms:GenerateDataKey"): _STATE,
        },
    ),
    "job": Explained(
        {
            "ReadCode": _EMR,
            "WriteLogs": _EMR,
            "ListChangelogs0": "a changelog's file that is gone is told from one that may not be read",
        },
        {
            ("KeepState", "dynamodb:DeleteItem"): _OLD,
            ("WriteMirrors", "s3:AbortMultipartUpload"): _CUT,
            ("UseKey", "kms:GenerateDataKey"): _DISKS,
        },
    ),
    "maintenance": Explained(
        {"ReadCode": _EMR, "WriteLogs": _EMR, "UseKey": _LOGS},
        {("CleanMirrors", "s3:AbortMultipartUpload"): _CUT},
    ),
    "scheduler": Explained(
        {"UseKey": "schedule and queue are encrypted", "TellOfFailure": "EMR took the job"}, {}
    ),
}
