"""The Lambda function in an emulator: object in S3 → queue → function → row in DynamoDB → launch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.settings.trigger import DynamoDbState
from icemirror.stores.dynamodb import open_dynamodb
from icemirror.stores.store import Store
from tests.services.conftest import Start
from tests.services.lambda_package import CHANGELOG_FOLDER, pack
from tests.services.ministack import Ministack, ministack

ROLE = "arn:aws:iam::000000000000:role/trigger"


def wait_until(condition: Callable[[], object], seconds: float = 90.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return False


@pytest.fixture(scope="module")
def aws(start: Callable[[str, Start[Ministack]], Ministack]) -> Ministack:
    """A separate emulator: the function's processes must end with it."""
    return start("ministack", ministack)


@pytest.fixture
def client(aws: Ministack, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    return lambda service: boto3.client(service, endpoint_url=aws.endpoint)


def test_object_causes_a_row_and_a_launch_and_only_the_poison_message_fails(
    aws: Ministack, client: Callable[[str], Any], tmp_path: Path
) -> None:
    s3, sqs, functions, dynamodb = (client(name) for name in ("s3", "sqs", "lambda", "dynamodb"))
    for bucket in ("lake", "launches"):
        s3.create_bucket(Bucket=bucket)
    dynamodb.create_table(
        TableName="icemirror",
        KeySchema=[
            {"AttributeName": "kind", "KeyType": "HASH"},
            {"AttributeName": "key", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("kind", "key")],
        BillingMode="PAY_PER_REQUEST",
    )
    dead, queue = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("dead", "events"))
    arns = [
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        for url in (dead, queue)
    ]
    redrive = json.dumps({"deadLetterTargetArn": arns[0], "maxReceiveCount": "2"})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": redrive, "VisibilityTimeout": "15"})
    notifications = {"QueueConfigurations": [{"QueueArn": arns[1], "Events": ["s3:ObjectCreated:*"]}]}
    s3.put_bucket_notification_configuration(Bucket="lake", NotificationConfiguration=notifications)
    functions.create_function(
        FunctionName="trigger", Runtime="python3.11", Handler="entry.handler", Role=ROLE, Timeout=60,
        Code={"ZipFile": pack(tmp_path, aws.endpoint)},
        Environment={"Variables": {"ICEMIRROR_CONFIG": str(tmp_path / "icemirror.yaml")}},
    )  # fmt: skip
    functions.create_event_source_mapping(
        EventSourceArn=arns[1],
        FunctionName="trigger",
        BatchSize=10,
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )
    sqs.send_message(QueueUrl=queue, MessageBody="poison")
    s3.put_object(Bucket="lake", Key=f"{CHANGELOG_FOLDER}/00002-b.metadata.json", Body=b"{}")
    store: Store = open_dynamodb(DynamoDbState(type="dynamodb", table="icemirror", endpoint=aws.endpoint))

    assert wait_until(lambda: "shop.orders" in store.load(ALL_ROWS).tables), "no row"
    assert wait_until(lambda: s3.list_objects_v2(Bucket="launches").get("KeyCount")), "no launch"
    assert s3.list_objects_v2(Bucket="launches")["KeyCount"] == 1
    found: list[str] = []

    def poison_is_a_dead_letter() -> bool:
        found.extend(message["Body"] for message in sqs.receive_message(QueueUrl=dead).get("Messages", []))
        return bool(found or store.letters())

    assert wait_until(poison_is_a_dead_letter), "the poison message is still retried"
    assert found == ["poison"], "another message failed"
    store.close()
