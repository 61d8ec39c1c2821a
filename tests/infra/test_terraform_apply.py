"""The example `minimal`, applied to emulators: commit → rule → queue → function → state → launch; then destroyed."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog import load_catalog

from icemirror.cli.main import run
from icemirror.settings import load_settings
from icemirror.settings.packed import VARIABLE, pack_config
from icemirror.state.configured import open_store
from icemirror.state.reads import EVERYTHING
from icemirror.state.store import Store
from tests.infra.emr_server import ACCOUNT, emr_serverless
from tests.infra.overrides import PROVIDER, QUARANTINE, REGION, UPGRADE
from tests.infra.policies import allows, faults, statements
from tests.infra.recorded_calls import Recorder
from tests.infra.shown import lowered, of_type
from tests.infra.terraform import OURS, Terraform, Unavailable
from tests.need import do_without
from tests.services.conftest import Start
from tests.services.lambda_package import write_trigger
from tests.services.ministack import Ministack, ministack
from tests.unit.house.tracked import ROOT
from trigger import handler as function

AT, LAKE = "examples/minimal", "example-lake"
HEAD = "raw/orders_changelog/metadata/00001-a.metadata.json"
# What a role may do that this run did not need: cures, and Lambda's own.
RARELY = {
    "emr-serverless:CancelJobRun", "emr-serverless:GetApplication", "emr-serverless:ListJobRuns",
    "emr-serverless:GetJobRun", "dynamodb:DeleteItem", "dynamodb:UpdateItem", "dynamodb:BatchGetItem",
    "dynamodb:PutItem", "glue:GetTables",
}  # fmt: skip
OF_LAMBDA = {
    "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "logs:CreateLogStream", "logs:PutLogEvents",
}  # fmt: skip


@pytest.fixture(scope="module")
def aws(start: Callable[[str, Start[Ministack]], Ministack]) -> Ministack:
    """One of its own: what it runs for the function must end with it."""
    return start("ministack", ministack)


@pytest.fixture(scope="module")
def environ(aws: Ministack, start: Callable[[str, Start[str]], str]) -> Iterator[dict[str, str]]:
    """Everything is emulated by the one, EMR Serverless by the other."""
    found = {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": aws.endpoint,
        "AWS_ENDPOINT_URL_EMR_SERVERLESS": start("emr", emr_serverless),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in found.items():
            patch.setenv(name, value)
        yield found


@pytest.fixture(scope="module")
def applied(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    s3, glue = boto3.client("s3"), boto3.client("glue")
    s3.create_bucket(Bucket=LAKE)
    s3.put_bucket_notification_configuration(
        Bucket=LAKE, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    glue.create_database(DatabaseInput={"Name": "raw"})
    for name in ("orders_changelog", "items_changelog"):
        head = f"s3://{LAKE}/raw/{name}/metadata/00000-a.metadata.json"
        table = {"Name": name, "Parameters": {"table_type": "ICEBERG", "metadata_location": head}}
        glue.create_table(DatabaseName="raw", TableInput=table)
    dist = tmp_path_factory.mktemp("dist")
    with zipfile.ZipFile(dist / "icemirror-trigger.zip", "w", zipfile.ZIP_STORED) as package:
        write_trigger(package)
    (dist / "icemirror_job.py").write_text("")
    with tarfile.open(dist / "icemirror-job.tar.gz", "w:gz"):
        pass
    try:
        terraform = Terraform(
            tmp_path_factory.mktemp("terraform"), {**os.environ, **environ, "TF_VAR_dist": str(dist)}
        )
        (terraform.folder / AT / "emulators.tf").write_text(PROVIDER)
        (terraform.folder / AT / "quarantine_override.tf").write_text(QUARANTINE)
        terraform.init(AT)
    except Unavailable as error:
        do_without(str(error))
    terraform.run("apply", "-auto-approve", "-input=false", "-no-color", at=AT)
    return terraform


@pytest.fixture(scope="module")
def policies(applied: Terraform) -> dict[str, str]:
    """What each role may do, from the state."""
    shown = json.loads(applied.run("show", "-json", at=AT))
    found: dict[str, str] = {}

    def walk(module: dict[str, Any]) -> None:
        for one in module.get("resources", ()):
            if one["type"] == "aws_iam_role_policy":
                found[one["index"]] = one["values"]["policy"]
        for child in module.get("child_modules", ()):
            walk(child)

    walk(shown["values"]["root_module"])
    return found


@pytest.fixture
def config(
    applied: Terraform, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """`terraform output -json | icemirror config from-terraform > icemirror.yaml`"""
    monkeypatch.setattr("sys.stdin", io.StringIO(applied.run("output", "-json", at=AT)))
    assert run(["config", "from-terraform"]) == 0
    path = tmp_path / "icemirror.yaml"
    path.write_text(capsys.readouterr().out)
    return path


def until(true: Callable[[], object], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.2)
    return False


def noticed(store: Store) -> int:
    row = store.load(EVERYTHING).tables.get("shop.orders")
    return row.dirty if row else 0


def test_no_role_may_do_more_than_it_needs(policies: dict[str, str]) -> None:
    assert set(policies) == {"trigger", "job", "maintenance", "scheduler"}
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
        ("job", "glue:CreateTable", f"{GLUE}:table/shop/items_rejects", True),
        ("job", "glue:UpdateTable", f"{GLUE}:table/shop/items_rejects", True),
        ("job", "glue:DeleteTable", f"{GLUE}:table/shop/items_rejects", False),
        ("job", "glue:CreateTable", f"{GLUE}:table/shop/orders_rejects", False),
        ("trigger", "glue:GetTable", f"{GLUE}:table/shop/items_rejects", False),
        ("maintenance", "glue:UpdateTable", f"{GLUE}:table/shop/items_rejects", False),
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
        ("scheduler", "emr-serverless:StartJobRun", f"{EMR}:/applications/x", False),
        ("scheduler", "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/icemirror-job", False),
        ("scheduler", "s3:DeleteObject", MIRROR, False),
    ],
)  # fmt: skip
def test_a_role_may(policies: dict[str, str], role: str, action: str, resource: str, may: bool) -> None:
    assert allows(policies[role], action, resource) is may


def test_the_triggers_role_allows_what_it_calls_and_little_else(
    policies: dict[str, str], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(ACCOUNT, REGION)
    recorder.watch(monkeypatch)
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(config))
    try:
        assert function.handler({"icemirror": "sweep"}, object())["tables"] == ["shop.items", "shop.orders"]
        function.handler({"icemirror": "sweep"}, object())
        function._function().intake.fleet.registry.close()
    finally:
        for cached in (function._function, function._settings, function._report):
            cached.cache_clear()
    passed = {"iam:PassedToService": "emr-serverless.amazonaws.com"}
    refused = [
        one
        for one in sorted(recorder.calls)
        if not allows(policies["trigger"], one.action, one.resource, passed)
    ]
    assert refused == []
    called = {call.action for call in recorder.calls}
    assert {"emr-serverless:StartJobRun", "glue:GetTable", "dynamodb:Query"} <= called
    granted = {action for one in statements(policies["trigger"]) for action in one["Action"]}
    assert granted - called <= RARELY | OF_LAMBDA


def test_the_jobs_role_allows_what_a_merge_calls_and_writes(
    policies: dict[str, str], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3, policy = boto3.client("s3"), policies["job"]
    content = yaml.safe_load(config.read_text())
    content["iceberg"]["catalog"]["s3.endpoint"] = os.environ["AWS_ENDPOINT_URL"]  # names buckets in paths
    config.write_text(yaml.safe_dump(content))
    catalog = load_catalog("lake", **load_settings(config, {}).catalog_properties(None))
    catalog.drop_table("raw.items_changelog")
    schema = pa.schema(
        [
            pa.field(name, kind, nullable=False)
            for name, kind in (("id", pa.int64()), ("sequence_number", pa.int64()))
        ]
        + [pa.field("cdc_operation", pa.string(), nullable=False)]
    )

    def make_changelog() -> None:
        location = f"s3://{LAKE}/raw/items_changelog"
        changelog = catalog.create_table("raw.items_changelog", schema, location=location)
        with changelog.update_schema() as update:
            update.set_identifier_fields("id")

    make_changelog()
    before = keys_of(s3)
    recorder = Recorder(ACCOUNT, REGION)
    for sequence, operation in enumerate(("INSERT", "UPDATE", "DELETE", "NONSENSE", "INSERT")):
        if sequence == 4:  # made anew, so that the mirror is built anew
            catalog.drop_table("raw.items_changelog")
            make_changelog()
        rows = pa.table([[1, 2, 3], [sequence] * 3, [operation] * 3], schema=schema)
        catalog.load_table("raw.items_changelog").append(rows)
        changed = keys_of(s3)
        with monkeypatch.context() as watched:
            recorder.watch(watched)
            assert run(["-c", str(config), "merge", "-t", "shop.items"]) == 0
        written = keys_of(s3) - changed
        assert written
        assert [
            key for key in written if not allows(policy, "s3:PutObject", f"arn:aws:s3:::{LAKE}/{key}")
        ] == []
    assert len(catalog.load_table("shop.items_rejects").scan().to_arrow()) == 3
    assert "icemirror.rebuilds" in catalog.load_table("shop.items").properties
    read = {key for key in keys_of(s3) - before if key.startswith("raw/")}
    assert [key for key in read if not allows(policy, "s3:GetObject", f"arn:aws:s3:::{LAKE}/{key}")] == []
    assert [one for one in sorted(recorder.calls) if not allows(policy, one.action, one.resource)] == []
    assert {"glue:CreateDatabase", "glue:CreateTable", "glue:UpdateTable"} <= {
        one.action for one in recorder.calls
    }


def test_maintenance_runs_by_the_clock_in_its_own_role(
    applied: Terraform, policies: dict[str, str], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = json.loads(applied.run("show", "-json", at=AT))
    (schedule,) = of_type(shown["values"]["root_module"], "aws_scheduler_schedule")
    asked = lowered(json.loads(schedule["target"][0]["input"]))
    application = f"{EMR}:/applications/{asked['applicationId']}"
    passed = {"iam:PassedToService": "emr-serverless.amazonaws.com"}
    assert allows(policies["scheduler"], "emr-serverless:StartJobRun", application)
    assert allows(policies["scheduler"], "iam:PassRole", asked["executionRoleArn"], passed)
    assert asked["executionRoleArn"].endswith("/icemirror-maintenance")
    asked["clientToken"] = "a-token"  # the scheduler puts one in
    assert boto3.client("emr-serverless").start_job_run(**asked)["jobRunId"]

    (defaults,) = asked["configurationOverrides"]["applicationConfiguration"]
    prefix = "spark.emr-serverless.driverEnv."
    driver = {
        name.removeprefix(prefix): value for name, value in defaults["properties"].items() if prefix in name
    }
    entry = [sys.executable, ROOT / "spark_job" / "submit" / "icemirror_job.py"]
    command = [*entry, *asked["jobDriver"]["sparkSubmit"]["entryPointArguments"]]
    sent = json.loads(gzip.decompress(base64.b64decode(driver[VARIABLE])))
    assert sent == json.loads(json.dumps(applied.outputs(AT)["configuration"]))
    sent["iceberg"]["catalog"]["s3.endpoint"] = os.environ["AWS_ENDPOINT_URL"]
    given = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: pack_config(json.dumps(sent))}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert {json.loads(line)["table"] for line in done.stdout.splitlines()} == {"shop.items"}

    config.write_text(json.dumps(sent))
    recorder = Recorder(ACCOUNT, REGION)
    with monkeypatch.context() as watched:
        recorder.watch(watched)
        assert run(["-c", str(config), "maintain", "-t", "shop.items"]) == 0
    assert recorder.calls
    assert [
        one for one in recorder.calls if not allows(policies["maintenance"], one.action, one.resource)
    ] == []


def keys_of(s3: Any) -> set[str]:
    return {one["Key"] for one in s3.list_objects_v2(Bucket=LAKE).get("Contents", ())}


def test_a_commit_becomes_a_row_and_a_job(applied: Terraform, config: Path, environ: dict[str, str]) -> None:
    functions, emr = boto3.client("lambda"), boto3.client("emr-serverless")
    settings = load_settings(config, {})
    given = functions.get_function_configuration(FunctionName="icemirror")["Environment"]["Variables"]
    given["AWS_ENDPOINT_URL_EMR_SERVERLESS"] = environ["AWS_ENDPOINT_URL_EMR_SERVERLESS"]
    functions.update_function_configuration(FunctionName="icemirror", Environment={"Variables": given})
    application = settings.trigger.launcher.model_dump()["application_id"]
    before = len(emr.list_job_runs(applicationId=application)["jobRuns"])
    store = open_store(settings)
    dirty = noticed(store)

    boto3.client("s3").put_object(Bucket=LAKE, Key=HEAD, Body=b"{}")
    assert until(lambda: noticed(store) > dirty), "no row"
    assert before or until(lambda: emr.list_job_runs(applicationId=application)["jobRuns"]), "no job"
    store.close()


def drain(applied: Terraform, config: Path, folder: Path) -> None:
    """As an operator would: what is started can be neither changed nor destroyed."""
    assert run(["--config", str(config), "pause", "--match", "*"]) == 0
    application = applied.outputs(AT)["configuration"]["trigger"]["launcher"]["application_id"]
    assert (
        boto3.client("emr-serverless").get_application(applicationId=application)["application"]["state"]
        == "STARTED"
    )
    command = folder / "aws"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.infra.aws_command "$@"\n')
    command.chmod(0o755)
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "DRAIN_POLL_SECONDS": "0"}
    subprocess.run([OURS / "drain.sh", application], cwd=ROOT, env=environ, check=True, timeout=60)


def test_what_is_started_is_changed_once_it_is_drained(
    applied: Terraform, config: Path, tmp_path: Path
) -> None:
    (applied.folder / AT / "upgrade_override.tf").write_text(UPGRADE)
    apply = ("apply", "-auto-approve", "-input=false", "-no-color")
    with pytest.raises(AssertionError, match=r"CREATED.*STOPPED"):
        applied.run(*apply, at=AT)
    drain(applied, config, tmp_path)
    applied.run(*apply, at=AT)
    emr = boto3.client("emr-serverless")
    application = applied.outputs(AT)["configuration"]["trigger"]["launcher"]["application_id"]
    changed = emr.get_application(applicationId=application)["application"]
    assert changed["autoStopConfiguration"]["idleTimeoutMinutes"] == 7
    assert run(["--config", str(config), "resume", "--match", "*"]) == 0
    emr.start_application(applicationId=application)  # as the next job would


def test_destroying_leaves_nothing_but_data(applied: Terraform, config: Path, tmp_path: Path) -> None:
    drain(applied, config, tmp_path)
    applied.run("destroy", "-auto-approve", "-input=false", "-no-color", at=AT)
    assert json.loads(applied.run("show", "-json", at=AT)).get("values", {}).get("root_module", {}) == {}
    assert boto3.client("dynamodb").list_tables()["TableNames"] == []
    assert boto3.client("lambda").list_functions()["Functions"] == []
    assert boto3.client("sqs").list_queues().get("QueueUrls", []) == []
    assert boto3.client("s3").list_objects_v2(Bucket=LAKE)["KeyCount"] >= 1
