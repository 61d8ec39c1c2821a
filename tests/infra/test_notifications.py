"""The command in docs/how-to/deploy-aws.md that enables EventBridge keeps a bucket's other notifications."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from tests.services.conftest import Start
from tests.services.ministack import Ministack, ministack
from tests.unit.house.tracked import ROOT

LAKE = "example-lake"


def documented_command() -> str:
    text = (ROOT / "docs" / "how-to" / "deploy-aws.md").read_text(encoding="utf-8")
    found = re.search(
        r'^aws s3api put-bucket-notification-configuration .*?\)"', text, re.MULTILINE | re.DOTALL
    )
    assert found
    return found[0]


@pytest.mark.parametrize("others", [True, False], ids=["other notifications", "no notifications"])
def test_command_keeps_other_notifications(
    others: bool,
    start: Callable[[str, Start[Ministack]], Ministack],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environ = {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": start("ministack", ministack).endpoint,
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    command = tmp_path / "aws"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.infra.aws_command "$@"\n')
    command.chmod(0o755)
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=LAKE)
    boto3.client("sqs").create_queue(QueueName="others")
    queue = {"QueueArn": "arn:aws:sqs:us-east-1:000000000000:others", "Events": ["s3:ObjectRemoved:*"]}
    before = {"QueueConfigurations": [{"Id": "others", **queue}]} if others else {}
    s3.put_bucket_notification_configuration(Bucket=LAKE, NotificationConfiguration=before)
    subprocess.run(
        ["sh", "-ec", documented_command()],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=True,
        timeout=60,
    )
    after = s3.get_bucket_notification_configuration(Bucket=LAKE)
    after.pop("ResponseMetadata")
    assert after.pop("EventBridgeConfiguration") == {}
    assert after == before
