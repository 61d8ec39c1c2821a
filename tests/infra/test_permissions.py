"""What each role may do, against what it does: recorded from the wire in a run from the first commit to maintenance."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from icemirror.settings.for_job import unpack
from tests.infra.calls import Call
from tests.infra.emr_server import ACCOUNT
from tests.infra.explained import EXPLAINED
from tests.infra.installation import AT, LAKE, install, make_lake, root_module
from tests.infra.overrides import KEY, LAKE_KEY, REGION, WHOLE
from tests.infra.permissions import Permission, parts_of, unused, without
from tests.infra.policies import allows, allows_call, faults, statements
from tests.infra.recorded_calls import Asked, Recorder
from tests.infra.s3_calls import kms_calls
from tests.infra.shown import lowered, of_type
from tests.infra.terraform import Terraform
from tests.infra.whole_run import open_run

ROLES = ("trigger", "job", "maintenance", "scheduler")
CHANGELOGS = ("raw.orders_changelog", "raw.items_changelog", "found.users_changelog")
MIRRORS = ("shop.orders", "shop.items", "mirrored.users")
RUN_ENDED = {"source": "aws.emr-serverless", "detail-type": "EMR Serverless Job Run State Change"}


@pytest.fixture(scope="module")
def job_state() -> str:
    """They run when the test says so; one that had ended would be launched again."""
    return "RUNNING"


@pytest.fixture(scope="module")
def applied(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    make_lake("raw", "found")
    return install(tmp_path_factory.mktemp("installation"), environ, {"whole_override.tf": WHOLE})


@pytest.fixture(scope="module")
def scheduled(applied: Terraform) -> Any:
    """What the scheduler asks EMR for."""
    (schedule,) = of_type(root_module(applied), "aws_scheduler_schedule")
    asked = lowered(json.loads(schedule["target"][0]["input"]))
    assert asked.pop("clientToken") == "<aws.scheduler.execution-id>"
    return asked


@pytest.fixture(scope="module")
def asked(
    applied: Terraform, policies: dict[str, str], scheduled: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Asked]:
    """What each role asked for: first merges by jobs of the trigger's, one for each kind of change, maintenance."""
    recorder = Recorder(ACCOUNT, REGION, lambda role, call: allows_call(policies[role], call))
    configuration = applied.outputs(AT)["configuration"]
    with open_run(recorder, configuration, tmp_path_factory.mktemp("run")) as run:
        for name in CHANGELOGS:
            run.make_changelog(name)
            run.commit(name, 0, "INSERT")
        run.sweep_until(lambda: all(map(run.is_mirrored, MIRRORS)))
        for sequence, operation in enumerate(("UPDATE", "DELETE", "NONSENSE", "INSERT"), 1):
            if operation == "INSERT":  # made anew, so that the mirror is built anew
                run.make_changelog("raw.items_changelog")
            run.commit("raw.items_changelog", sequence, operation)
            run.merge("shop.items")
        run.start_by_the_clock(scheduled)
        done = run.maintain("shop.items", scheduled["jobDriver"]["sparkSubmit"]["entryPointArguments"])
        run.commit("raw.orders_changelog", 1, "UPDATE")
        run.sweep_until(lambda: bool(run.launched()), run_jobs=False)
        told = {**RUN_ENDED, "detail": {"jobRunId": run.launched()[0], "state": "FAILED"}}
        run.tell_trigger(told)  # EMR is asked, and knows better
    assert {one["table"] for one in done} == set(MIRRORS)
    assert any(one["files"] > 0 for one in done)
    return dict(recorder.asked)


def needs(asked: Asked) -> set[Call]:
    """What IAM was asked about, and KMS would be for what is encrypted, but for what was refused."""
    calls = asked.calls - asked.refused
    return calls | {more for call in calls for more in _of_keys(call)}


def _of_keys(call: Call) -> Iterator[Call]:
    if call.resource.startswith(f"arn:aws:s3:::{LAKE}/"):
        yield from kms_calls(call, LAKE_KEY)
    if call.action.startswith("dynamodb:"):
        yield Call("kms:Decrypt", KEY)


def unexplained(role: str, parts: Iterable[Permission]) -> set[Permission]:
    known = EXPLAINED[role]
    return {
        one for one in parts if one.sid not in known.statements and (one.sid, one.part) not in known.actions
    }


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_allowed_what_it_asks_for(
    asked: dict[str, Asked], policies: dict[str, str], role: str
) -> None:
    wanted = needs(asked[role])
    assert wanted
    assert [call for call in sorted(wanted) if not allows_call(policies[role], call)] == []


@pytest.mark.parametrize("role", [role for role in ROLES if role != "job"])
def test_nothing_was_refused(asked: dict[str, Asked], role: str) -> None:
    assert asked[role].refused == set()


def test_jobs_are_refused_deletions_alone_and_do_their_work(asked: dict[str, Asked]) -> None:
    """They leave files to maintenance. Who may not, is refused: this shows that the run was held to the policies."""
    refused = asked["job"].refused
    assert {call.action for call in refused} == {"s3:DeleteObject"}
    assert all(call.resource.startswith(f"arn:aws:s3:::{LAKE}/mirrors/") for call in refused)


def test_the_run_asked_for_all_kinds_of_things(asked: dict[str, Asked]) -> None:
    assert set(asked) == set(ROLES)
    actions = {role: {call.action for call in asked[role].calls} for role in ROLES}
    assert {"emr-serverless:StartJobRun", "emr-serverless:GetJobRun", "glue:GetTables"} <= actions["trigger"]
    assert {"s3:GetObject", "s3:PutObject", "s3:ListBucket", "glue:CreateTable"} <= actions["job"]
    assert {"s3:GetObject", "s3:PutObject", "s3:ListBucket", "s3:DeleteObject"} <= actions["maintenance"]
    assert actions["scheduler"] == {
        "emr-serverless:StartJobRun", "emr-serverless:TagResource", "iam:PassRole", "kms:DescribeKey",
    }  # fmt: skip


def test_the_trigger_asks_s3_for_nothing(asked: dict[str, Asked]) -> None:
    """Its requests to DynamoDB and Glue came by the same door."""
    services = {call.action.partition(":")[0] for call in asked["trigger"].calls}
    assert services == {"dynamodb", "emr-serverless", "glue", "iam", "kms"}


@pytest.mark.parametrize("role", ROLES)
def test_every_permission_is_used_or_explained(
    asked: dict[str, Asked], policies: dict[str, str], role: str
) -> None:
    assert unexplained(role, unused(policies[role], needs(asked[role]))) == set()


@pytest.mark.parametrize("role", ROLES)
def test_every_explanation_is_of_a_permission_that_is_there(policies: dict[str, str], role: str) -> None:
    there = parts_of(policies[role])
    assert set(EXPLAINED[role].statements) <= {one.sid for one in there}
    assert set(EXPLAINED[role].actions) <= {(one.sid, one.part) for one in there}


@pytest.mark.parametrize("role", ROLES)
def test_a_permission_that_is_forgotten_is_missed(
    asked: dict[str, Asked], policies: dict[str, str], role: str
) -> None:
    wanted, policy = needs(asked[role]), policies[role]
    used = parts_of(policy) - unused(policy, wanted)
    shared = {one for one in used if one.part.endswith(":catalog")}
    assert used - shared
    assert [
        one
        for one in sorted(used - shared)
        if all(allows_call(without(policy, one), call) for call in wanted)
    ] == []


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("part", "more"),
    [("Action", "s3:PutObjectAcl"), ("Resource", f"arn:aws:s3:::{LAKE}/payroll/*")],
)
def test_a_permission_too_many_is_found(
    asked: dict[str, Asked], policies: dict[str, str], role: str, part: str, more: str
) -> None:
    wanted = needs(asked[role])
    for at, statement in enumerate(statements(policies[role])):
        if statement["Sid"] in EXPLAINED[role].statements:
            continue
        planted = statements(policies[role])
        planted[at] = {**statement, part: [*statement[part], more]}
        found = unexplained(role, unused(json.dumps({"Statement": planted}), wanted))
        assert found == {Permission(statement["Sid"], more)}


def test_maintenance_runs_by_the_clock_in_its_own_role(applied: Terraform, scheduled: Any) -> None:
    assert scheduled["executionRoleArn"].endswith("/icemirror-maintenance")
    arguments = scheduled["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    sent = json.loads(unpack(arguments[arguments.index("--config") + 1 :]))
    assert sent == json.loads(json.dumps(applied.outputs(AT)["configuration"]))


def test_no_role_may_do_more_than_it_needs(policies: dict[str, str]) -> None:
    assert set(policies) == set(ROLES)
    assert [fault for role, policy in policies.items() for fault in faults(role, policy)] == []


EMR = f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}"
GLUE = f"arn:aws:glue:{REGION}:{ACCOUNT}"
MIRROR = f"arn:aws:s3:::{LAKE}/mirrors/shop/orders/data/1.parquet"
CHANGELOG = f"arn:aws:s3:::{LAKE}/raw/orders_changelog/data/1.parquet"


@pytest.mark.parametrize(
    ("role", "action", "resource", "may"),
    [
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
    ],
)  # fmt: skip
def test_a_role_may(policies: dict[str, str], role: str, action: str, resource: str, may: bool) -> None:
    assert allows(policies[role], action, resource) is may


@pytest.mark.parametrize(
    ("role", "prefix", "may"),
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
def test_a_role_may_list(policies: dict[str, str], role: str, prefix: str | None, may: bool) -> None:
    told = {} if prefix is None else {"s3:prefix": prefix}
    assert allows(policies[role], "s3:ListBucket", f"arn:aws:s3:::{LAKE}", told) is may
