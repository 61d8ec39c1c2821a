"""The minimal example on an emulated AWS: commit → rule → queue → function → state → launch; then destroyed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from icemirror.cli.main import run
from icemirror.config_file.load import load_settings
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.stores.from_settings import open_store
from icemirror.stores.store import Store
from tests.infra.emr_server import ACCOUNT
from tests.infra.installation import EXAMPLE, LAKE, install, make_lake
from tests.infra.overrides import QUARANTINE, REGION, UPGRADE
from tests.infra.policies import allows
from tests.infra.terraform import OURS, Terraform
from tests.unit.house.tracked import ROOT

HEAD = "raw/orders_changelog/metadata/00001-a.metadata.json"


@pytest.fixture(scope="module")
def applied(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    make_lake("raw")
    for name in ("orders_changelog", "items_changelog"):
        head = f"s3://{LAKE}/raw/{name}/metadata/00000-a.metadata.json"
        table = {"Name": name, "Parameters": {"table_type": "ICEBERG", "metadata_location": head}}
        boto3.client("glue").create_table(DatabaseName="raw", TableInput=table)
    folder = tmp_path_factory.mktemp("installation")
    return install(folder, environ, {"quarantine_override.tf": QUARANTINE})


def wait_until(is_done: Callable[[], object], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_done():
            return True
        time.sleep(0.2)
    return False


def notices(store: Store) -> int:
    row = store.load(ALL_ROWS).tables.get("shop.orders")
    return row.dirty if row else 0


def test_commit_is_noticed_and_launches_a_job(
    applied: Terraform, config: Path, environ: dict[str, str]
) -> None:
    functions, emr = boto3.client("lambda"), boto3.client("emr-serverless")
    settings = load_settings(config, {})
    variables = functions.get_function_configuration(FunctionName="icemirror")["Environment"]["Variables"]
    variables["AWS_ENDPOINT_URL_EMR_SERVERLESS"] = environ["AWS_ENDPOINT_URL_EMR_SERVERLESS"]
    functions.update_function_configuration(FunctionName="icemirror", Environment={"Variables": variables})
    application = settings.trigger.launcher.model_dump()["application_id"]
    assert emr.list_job_runs(applicationId=application)["jobRuns"] == []
    store = open_store(settings)
    dirty = notices(store)

    boto3.client("s3").put_object(Bucket=LAKE, Key=HEAD, Body=b"{}")
    assert wait_until(lambda: notices(store) > dirty), "no notice"
    assert wait_until(lambda: emr.list_job_runs(applicationId=application)["jobRuns"]), "no job"
    store.close()


def run_event(role: str, state: str, application: str) -> str:
    """Return EMR's event of a run that this role started."""
    detail = {
        "jobRunId": "00f1cbn5g4bb0c01",
        "applicationId": application,
        "state": state,
        "createdBy": f"arn:aws:sts::{ACCOUNT}:assumed-role/icemirror-{role}/at-night",
    }
    envelope = {
        "id": "1",
        "account": ACCOUNT,
        "region": REGION,
        "time": "2026-01-01T02:30:00Z",
        "resources": [],
    }
    kind = {"source": "aws.emr-serverless", "detail-type": "EMR Serverless Job Run State Change"}
    return json.dumps({**envelope, **kind, "detail": detail})


def test_only_failed_maintenance_is_reported(
    applied: Terraform, config: Path, policies: dict[str, str]
) -> None:
    events, sqs = boto3.client("events"), boto3.client("sqs")
    rule = events.describe_rule(Name="icemirror-maintenance-failed")
    ours = load_settings(config, {}).trigger.launcher.model_dump()["application_id"]

    def is_reported(role: str, state: str, application: str = ours) -> bool:
        event = run_event(role, state, application)
        return bool(events.test_event_pattern(EventPattern=rule["EventPattern"], Event=event)["Result"])

    assert is_reported("scheduler", "FAILED")
    assert is_reported("scheduler", "CANCELLED")
    assert not is_reported("scheduler", "SUCCESS")
    assert not is_reported("scheduler", "RUNNING")
    assert not is_reported("scheduler", "FAILED", "00another")
    assert not is_reported("trigger", "FAILED")
    queue = sqs.get_queue_url(QueueName="icemirror-maintenance-failures")["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    (target,) = events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
    assert target["Arn"] == attributes["QueueArn"]
    assert allows(policies["scheduler"], "sqs:SendMessage", attributes["QueueArn"])


def drain(applied: Terraform, config: Path, folder: Path) -> None:
    """Pause all tables and stop the application, as an operator does before a change."""
    assert run(["--config", str(config), "pause", "--match", "*"]) == 0
    application = applied.outputs(EXAMPLE)["configuration"]["trigger"]["launcher"]["application_id"]
    assert (
        boto3.client("emr-serverless").get_application(applicationId=application)["application"]["state"]
        == "STARTED"
    )
    command = folder / "aws"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.infra.aws_command "$@"\n')
    command.chmod(0o755)
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "DRAIN_POLL_SECONDS": "0"}
    subprocess.run([OURS / "drain.sh", application], cwd=ROOT, env=environ, check=True, timeout=60)


def test_started_application_is_changed_after_a_drain(
    applied: Terraform, config: Path, tmp_path: Path
) -> None:
    (applied.folder / EXAMPLE / "upgrade_override.tf").write_text(UPGRADE)
    apply = ("apply", "-auto-approve", "-input=false", "-no-color")
    with pytest.raises(AssertionError, match=r"CREATED.*STOPPED"):
        applied.run(*apply, at=EXAMPLE)
    drain(applied, config, tmp_path)
    applied.run(*apply, at=EXAMPLE)
    emr = boto3.client("emr-serverless")
    application = applied.outputs(EXAMPLE)["configuration"]["trigger"]["launcher"]["application_id"]
    changed = emr.get_application(applicationId=application)["application"]
    assert changed["autoStopConfiguration"]["idleTimeoutMinutes"] == 7
    assert run(["--config", str(config), "resume", "--match", "*"]) == 0
    emr.start_application(applicationId=application)  # the next job would do so


def test_destroy_leaves_only_data(applied: Terraform, config: Path, tmp_path: Path) -> None:
    drain(applied, config, tmp_path)
    applied.run("destroy", "-auto-approve", "-input=false", "-no-color", at=EXAMPLE)
    assert json.loads(applied.run("show", "-json", at=EXAMPLE)).get("values", {}).get("root_module", {}) == {}
    assert boto3.client("dynamodb").list_tables()["TableNames"] == []
    assert boto3.client("lambda").list_functions()["Functions"] == []
    assert boto3.client("sqs").list_queues().get("QueueUrls", []) == []
    assert boto3.client("s3").list_objects_v2(Bucket=LAKE)["KeyCount"] >= 1
