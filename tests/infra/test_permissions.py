"""Permissions of each role against the calls that it makes, recorded from the first commit to maintenance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from icemirror.config_file.packing import unpack_arguments
from tests.infra.calls import Call
from tests.infra.emr_server import ACCOUNT
from tests.infra.end_to_end_run import open_run
from tests.infra.installation import EXAMPLE, LAKE, install, make_lake, resources, root_module
from tests.infra.justified_permissions import JUSTIFIED
from tests.infra.overrides import ALL_FEATURES, KEY, LAKE_KEY, REGION
from tests.infra.permissions import Permission, permissions_of, unused, without
from tests.infra.policies import allows, allows_call, faults, statements
from tests.infra.recorded_calls import Recorder, RoleCalls
from tests.infra.s3_calls import kms_calls
from tests.infra.terraform import Terraform

ROLES = ("trigger", "job", "maintenance", "scheduler")
CHANGELOGS = ("raw.orders_changelog", "raw.items_changelog", "found.users_changelog")
MIRRORS = ("shop.orders", "shop.items", "mirrored.users")
RUN_ENDED = {"source": "aws.emr-serverless", "detail-type": "EMR Serverless Job Run State Change"}


@pytest.fixture(scope="module")
def job_state() -> str:
    """Keep runs in the state RUNNING: the trigger would launch an ended one again."""
    return "RUNNING"


@pytest.fixture(scope="module")
def applied(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    make_lake("raw", "found")
    return install(tmp_path_factory.mktemp("installation"), environ, {"features_override.tf": ALL_FEATURES})


@pytest.fixture(scope="module")
def scheduled(applied: Terraform) -> Any:
    """Return the request that starts the nightly job."""
    (schedule,) = resources(root_module(applied), "aws_scheduler_schedule")
    request = lower_members(json.loads(schedule["target"][0]["input"]))
    assert request.pop("clientToken") == "<aws.scheduler.execution-id>"
    return request


def lower_members(value: Any) -> Any:
    """Return a request with boto3's member names; the scheduler capitalises them. Property and tag names stay."""
    match value:
        case dict():
            return {
                name[0].lower() + name[1:]: inner if name in ("Properties", "Tags") else lower_members(inner)
                for name, inner in value.items()
            }
        case list():
            return [lower_members(inner) for inner in value]
        case _:
            return value


@pytest.fixture(scope="module")
def recorded(
    applied: Terraform, policies: dict[str, str], scheduled: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, RoleCalls]:
    """Return the calls of each role: launched jobs, a merge of each kind of change, maintenance."""
    recorder = Recorder(ACCOUNT, REGION, lambda role, call: allows_call(policies[role], call))
    configuration = applied.outputs(EXAMPLE)["configuration"]
    with open_run(recorder, configuration, tmp_path_factory.mktemp("run")) as run:
        for name in CHANGELOGS:
            run.make_changelog(name)
            run.commit(name, 0, "INSERT")
        run.sweep_until(lambda: all(map(run.is_mirrored, MIRRORS)))
        for sequence, operation in enumerate(("UPDATE", "DELETE", "NONSENSE", "INSERT"), 1):
            if operation == "INSERT":  # a recreated changelog makes the merge rebuild the mirror
                run.make_changelog("raw.items_changelog")
            run.commit("raw.items_changelog", sequence, operation)
            run.merge("shop.items")
        run.start_scheduled_job(scheduled)
        done = run.maintain("shop.items", scheduled["jobDriver"]["sparkSubmit"]["entryPointArguments"])
        run.commit("raw.orders_changelog", 1, "UPDATE")
        run.sweep_until(lambda: bool(run.launched()), run_jobs=False)
        event = {**RUN_ENDED, "detail": {"jobRunId": run.launched()[0], "state": "FAILED"}}
        run.invoke_trigger(event)  # the trigger polls EMR, where the run still runs
    assert {line["table"] for line in done} == set(MIRRORS)
    assert any(line["files"] > 0 for line in done)
    return dict(recorder.calls_of)


def required_calls(role: RoleCalls) -> set[Call]:
    """Return the allowed calls of a role, and the KMS calls that encryption adds."""
    calls = role.calls - role.refused
    return calls | {key_call for call in calls for key_call in _key_calls(call)}


def _key_calls(call: Call) -> Iterator[Call]:
    if call.resource.startswith(f"arn:aws:s3:::{LAKE}/"):
        yield from kms_calls(call, LAKE_KEY)
    if call.action.startswith("dynamodb:"):
        yield Call("kms:Decrypt", KEY)


def unjustified(role: str, permissions: Iterable[Permission]) -> set[Permission]:
    known = JUSTIFIED[role]
    return {
        permission
        for permission in permissions
        if permission.sid not in known.statements and (permission.sid, permission.part) not in known.actions
    }


@pytest.mark.parametrize("role", ROLES)
def test_role_is_allowed_the_calls_that_it_makes(
    recorded: dict[str, RoleCalls], policies: dict[str, str], role: str
) -> None:
    required = required_calls(recorded[role])
    assert required
    assert [call for call in sorted(required) if not allows_call(policies[role], call)] == []


@pytest.mark.parametrize("role", [role for role in ROLES if role != "job"])
def test_no_call_was_refused(recorded: dict[str, RoleCalls], role: str) -> None:
    assert recorded[role].refused == set()


def test_jobs_are_refused_only_deletes(recorded: dict[str, RoleCalls]) -> None:
    """Maintenance deletes the files instead. The refusals prove that the policies were enforced."""
    refused = recorded["job"].refused
    assert {call.action for call in refused} == {"s3:DeleteObject"}
    assert all(call.resource.startswith(f"arn:aws:s3:::{LAKE}/mirrors/") for call in refused)


def test_run_made_the_expected_calls(recorded: dict[str, RoleCalls]) -> None:
    assert set(recorded) == set(ROLES)
    actions = {role: {call.action for call in recorded[role].calls} for role in ROLES}
    assert {"emr-serverless:StartJobRun", "emr-serverless:GetJobRun", "glue:GetTables"} <= actions["trigger"]
    assert {"s3:GetObject", "s3:PutObject", "s3:ListBucket", "glue:CreateTable"} <= actions["job"]
    assert {"s3:GetObject", "s3:PutObject", "s3:ListBucket", "s3:DeleteObject"} <= actions["maintenance"]
    assert actions["scheduler"] == {
        "emr-serverless:StartJobRun", "emr-serverless:TagResource", "iam:PassRole", "kms:DescribeKey",
    }  # fmt: skip


def test_trigger_does_not_call_s3(recorded: dict[str, RoleCalls]) -> None:
    """Its requests to DynamoDB and Glue used the same endpoint, so S3 requests would be recorded."""
    services = {call.action.partition(":")[0] for call in recorded["trigger"].calls}
    assert services == {"dynamodb", "emr-serverless", "glue", "iam", "kms"}


@pytest.mark.parametrize("role", ROLES)
def test_every_permission_is_used_or_justified(
    recorded: dict[str, RoleCalls], policies: dict[str, str], role: str
) -> None:
    assert unjustified(role, unused(policies[role], required_calls(recorded[role]))) == set()


@pytest.mark.parametrize("role", ROLES)
def test_every_justified_permission_exists(policies: dict[str, str], role: str) -> None:
    existing = permissions_of(policies[role])
    assert set(JUSTIFIED[role].statements) <= {permission.sid for permission in existing}
    assert set(JUSTIFIED[role].actions) <= {(permission.sid, permission.part) for permission in existing}


@pytest.mark.parametrize("role", ROLES)
def test_removing_a_used_permission_is_detected(
    recorded: dict[str, RoleCalls], policies: dict[str, str], role: str
) -> None:
    required, policy = required_calls(recorded[role]), policies[role]
    used = permissions_of(policy) - unused(policy, required)
    shared = {permission for permission in used if permission.part.endswith(":catalog")}
    assert used - shared
    assert [
        permission
        for permission in sorted(used - shared)
        if all(allows_call(without(policy, permission), call) for call in required)
    ] == []


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("part", "added"),
    [("Action", "s3:PutObjectAcl"), ("Resource", f"arn:aws:s3:::{LAKE}/payroll/*")],
    ids=["action", "resource"],
)
def test_superfluous_permission_is_detected(
    recorded: dict[str, RoleCalls], policies: dict[str, str], role: str, part: str, added: str
) -> None:
    required = required_calls(recorded[role])
    for index, statement in enumerate(statements(policies[role])):
        if statement["Sid"] in JUSTIFIED[role].statements:
            continue
        planted = statements(policies[role])
        planted[index] = {**statement, part: [*statement[part], added]}
        found = unjustified(role, unused(json.dumps({"Statement": planted}), required))
        assert found == {Permission(statement["Sid"], added)}


def test_scheduled_maintenance_runs_in_the_maintenance_role(applied: Terraform, scheduled: Any) -> None:
    assert scheduled["executionRoleArn"].endswith("/icemirror-maintenance")
    arguments = scheduled["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    sent = json.loads(unpack_arguments(arguments[arguments.index("--config") + 1 :]))
    assert sent == json.loads(json.dumps(applied.outputs(EXAMPLE)["configuration"]))


def test_policies_have_no_faults(policies: dict[str, str]) -> None:
    assert set(policies) == set(ROLES)
    assert [fault for role, policy in policies.items() for fault in faults(role, policy)] == []


EMR = f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}"
GLUE = f"arn:aws:glue:{REGION}:{ACCOUNT}"
MIRROR = f"arn:aws:s3:::{LAKE}/mirrors/shop/orders/data/1.parquet"
CHANGELOG = f"arn:aws:s3:::{LAKE}/raw/orders_changelog/data/1.parquet"


PERMISSIONS = [
    ("job", "s3:GetObject", CHANGELOG, True),
    ("job", "s3:PutObject", CHANGELOG, False),
    ("job", "s3:PutObject", MIRROR, True),
    ("job", "s3:DeleteObject", MIRROR, False),
    ("job", "s3:GetObject", "arn:aws:s3:::other-lake/raw/1.parquet", False),
    ("job", "s3:GetObject", f"arn:aws:s3:::{LAKE}/payroll/1.parquet", False),
    ("job", "glue:UpdateTable", f"{GLUE}:table/shop/orders", True),
    ("job", "glue:UpdateTable", f"{GLUE}:table/raw/orders_changelog", False),
    ("job", "glue:UpdateTable", f"{GLUE}:table/shop/customers", False),
    ("job", "glue:DeleteTable", f"{GLUE}:table/shop/orders", False),
    ("job", "glue:CreateTable", f"{GLUE}:table/bad/items", True),
    ("job", "glue:UpdateTable", f"{GLUE}:table/bad/items", True),
    ("job", "glue:DeleteTable", f"{GLUE}:table/bad/items", False),
    ("job", "glue:CreateTable", f"{GLUE}:table/bad/orders", False),
    ("trigger", "glue:GetTable", f"{GLUE}:table/bad/items", False),
    ("maintenance", "glue:UpdateTable", f"{GLUE}:table/bad/items", False),
    ("job", "glue:GetTables", f"{GLUE}:table/found/*", True),
    ("job", "glue:GetTables", f"{GLUE}:table/raw/*", False),
    ("job", "dynamodb:PutItem", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/icemirror", True),
    ("job", "dynamodb:PutItem", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/other", False),
    ("job", "dynamodb:DeleteTable", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/icemirror", False),
    ("trigger", "s3:GetObject", CHANGELOG, False),
    ("trigger", "s3:GetObject", MIRROR, False),
    ("trigger", "glue:UpdateTable", f"{GLUE}:table/shop/orders", False),
    ("trigger", "glue:GetTable", f"{GLUE}:table/shop/customers", False),
    ("trigger", "sqs:ReceiveMessage", f"arn:aws:sqs:{REGION}:{ACCOUNT}:other", False),
    ("trigger", "emr-serverless:StartJobRun", f"{EMR}:/applications/x", False),
    ("trigger", "emr-serverless:DeleteApplication", f"{EMR}:/applications/x", False),
    ("trigger", "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/admin", False),
    ("maintenance", "s3:DeleteObject", MIRROR, True),
    ("maintenance", "s3:DeleteObject", CHANGELOG, False),
    ("maintenance", "glue:DeleteTable", f"{GLUE}:table/shop/orders", False),
    ("maintenance", "glue:UpdateTable", f"{GLUE}:table/raw/orders_changelog", False),
    ("maintenance", "dynamodb:PutItem", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/icemirror", False),
    ("maintenance", "s3:GetObject", CHANGELOG, False),
    ("maintenance", "glue:GetTable", f"{GLUE}:table/raw/orders_changelog", False),
    ("scheduler", "emr-serverless:StartJobRun", f"{EMR}:/applications/x", False),
    ("scheduler", "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/icemirror-job", False),
    ("scheduler", "s3:DeleteObject", MIRROR, False),
]  # fmt: skip


def permission_id(role: str, action: str, resource: str, allowed: bool) -> str:
    return f"{role} {'can' if allowed else 'cannot'} {action} {resource.split(':', 5)[5]}"


@pytest.mark.parametrize(
    ("role", "action", "resource", "allowed"), PERMISSIONS, ids=[permission_id(*case) for case in PERMISSIONS]
)
def test_role_is_allowed_only_the_expected_actions(
    policies: dict[str, str], role: str, action: str, resource: str, allowed: bool
) -> None:
    assert allows(policies[role], action, resource) is allowed


@pytest.mark.parametrize(
    ("role", "prefix", "allowed"),
    [
        ("job", "mirrors/shop.db/", True),
        ("job", "raw/items_changelog/", True),
        ("job", "payroll/", False),
        ("job", "", False),
        ("job", None, False),
        ("maintenance", "mirrors/shop.db/", True),
        ("maintenance", "raw/items_changelog/", False),
        ("trigger", "mirrors/shop.db/", False),
    ],
)
def test_role_can_list_only_its_folders(
    policies: dict[str, str], role: str, prefix: str | None, allowed: bool
) -> None:
    context = {} if prefix is None else {"s3:prefix": prefix}
    assert allows(policies[role], "s3:ListBucket", f"arn:aws:s3:::{LAKE}", context) is allowed
