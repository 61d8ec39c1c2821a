"""Permissions that the recorded run does not use, with the reason for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_EMR = "EMR uses this for the job, before and after it runs"
_LAMBDA = "Lambda uses this for the function"
_OLD = "old results and dead letters are deleted"
_CUT = "a failed upload is aborted"
_LOGS = "EMR writes logs to an encrypted bucket and reads the job's code from it"
_STATE = "DynamoDB requires it of every user of an encrypted table"
_DISKS = "EMR uses this to encrypt the job's disks"


@dataclass(frozen=True)
class Justified:
    """Reasons by statement ID, or by statement ID and action."""

    statements: Mapping[str, str]
    actions: Mapping[tuple[str, str], str]


JUSTIFIED = {
    "trigger": Justified(
        {"ReadEvents": _LAMBDA, "WriteLogs": _LAMBDA},
        {
            ("KeepState", "dynamodb:DeleteItem"): _OLD,
            ("LaunchJobs", "emr-serverless:GetApplication"): "shows why EMR refused a launch",
            ("LaunchJobs", "emr-serverless:ListJobRuns"): "finds a launch whose response was lost",
            ("ManageRuns", "emr-serverless:CancelJobRun"): "cancels a run that lost its slot",
            ("UseKey", "kms:GenerateDataKey"): _STATE,
        },
    ),
    "job": Justified(
        {
            "ReadCode": _EMR,
            "WriteLogs": _EMR,
            "ListChangelogs0": "distinguishes a missing file of a changelog from a forbidden one",
        },
        {
            ("KeepState", "dynamodb:DeleteItem"): _OLD,
            ("WriteMirrors", "s3:AbortMultipartUpload"): _CUT,
            ("UseKey", "kms:GenerateDataKey"): _DISKS,
        },
    ),
    "maintenance": Justified(
        {"ReadCode": _EMR, "WriteLogs": _EMR, "UseKey": _LOGS},
        {("CleanMirrors", "s3:AbortMultipartUpload"): _CUT},
    ),
    "scheduler": Justified(
        {"UseKey": "schedule and queue are encrypted", "ReportFailure": "EMR accepted the job"}, {}
    ),
}
