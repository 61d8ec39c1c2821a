"""The Lambda function on moto's S3, SQS and DynamoDB, with a fake launcher."""

from __future__ import annotations

import base64
import json
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from icemirror.config_file.packing import pack_config
from icemirror.errors import IcemirrorError, Transient
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import Rows
from icemirror.stores.from_settings import open_store
from icemirror.stores.store import Store
from tests.unit.trigger.fakes import FakeHeads, FakeLauncher, settings
from tests.unit.trigger.scene import Scene
from tests.unit.trigger.sources.recorded_events import event
from trigger import handler as module
from trigger import wiring
from trigger.dispatch import dispatcher as dispatchers
from trigger.dispatch.ingest import NotStored
from trigger.sources.kafka_records import decode_lambda_records
from trigger.tables import registry

ORDERS = "shop.orders"
HEAD = "s3://lake/shop/orders_changelog/metadata/00001-a.metadata.json"


class Cloud:
    """A bucket that notifies a queue, and the poller of the queue for Lambda."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.s3, self.sqs = boto3.client("s3"), boto3.client("sqs")
        self.s3.create_bucket(Bucket="lake")
        self.queue = self.sqs.create_queue(QueueName="events", Attributes={"VisibilityTimeout": "0"})[
            "QueueUrl"
        ]
        arn = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        notifications = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
        self.s3.put_bucket_notification_configuration(Bucket="lake", NotificationConfiguration=notifications)
        self.sqs.purge_queue(QueueUrl=self.queue)
        boto3.client("dynamodb").create_table(
            TableName="icemirror",
            KeySchema=[
                {"AttributeName": "kind", "KeyType": "HASH"},
                {"AttributeName": "key", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "kind", "AttributeType": "S"},
                {"AttributeName": "key", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        self.catalog, self.launcher = (
            FakeHeads({"shop.orders_changelog": HEAD, "raw.items": "i1"}),
            FakeLauncher(),
        )
        monkeypatch.setattr(registry, "open_head_source", lambda properties, name: self.catalog)
        monkeypatch.setattr(wiring, "open_launcher", lambda *_: self.launcher)
        config = settings(
            folder, state="{type: dynamodb, table: icemirror}", quiet_period="0s",
            launcher="{type: emr-serverless, application_id: a, execution_role_arn: 'arn:x', entry_point: 's3://x/y'}",
        )  # fmt: skip
        monkeypatch.setenv("ICEMIRROR_CONFIG", str(config.source_path))
        self.store: Store = open_store(config)

    def put(self, key: str) -> None:
        self.s3.put_object(Bucket="lake", Key=key, Body=b"{}")

    def send(self, body: str) -> None:
        self.sqs.send_message(QueueUrl=self.queue, MessageBody=body)

    def poll(self) -> tuple[dict[str, Any], list[str]]:
        """Pass one batch to the handler and delete the messages that did not fail, like Lambda."""
        messages = self.sqs.receive_message(
            QueueUrl=self.queue,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        ).get("Messages", [])
        records = [
            {
                "messageId": message["MessageId"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "eventSource": "aws:sqs",
            }
            for message in messages
        ]
        answer = module.handler({"Records": records}, object())
        failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for message in messages:
            if message["MessageId"] not in failed:
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return answer, [message["Body"] for message in messages if message["MessageId"] in failed]

    def rows(self) -> Rows:
        return self.store.load(ALL_ROWS)


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    for name, value in (
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
    ):
        monkeypatch.setenv(name, value)
    handlers = logging.getLogger().handlers[:]
    with mock_aws():
        yield Cloud(tmp_path, monkeypatch)
    if module._open_function.cache_info().currsize:
        module._open_function().ingest.dispatcher.registry.close()
    for cached in (module._open_function, module._load_settings, module._open_report):
        cached.cache_clear()
    logging.getLogger().handlers[:] = handlers


def test_s3_object_becomes_a_row_in_dynamodb_and_a_launch(cloud: Cloud) -> None:
    cloud.put("shop/orders_changelog/data/00000-a.parquet")
    cloud.put("shop/orders_changelog/metadata/00002-b.metadata.json")
    assert cloud.poll() == ({"batchItemFailures": []}, [])
    assert cloud.rows().tables[ORDERS].dirty == 1
    assert len(cloud.launcher.launches) == 1
    cloud.put("shop/orders_changelog/metadata/00003-c.metadata.json")
    cloud.poll()
    assert cloud.rows().tables[ORDERS].dirty == 2
    assert len(cloud.launcher.launches) == 1, "the launched worker merges it"


def test_malformed_message_fails_alone_and_becomes_a_dead_letter(cloud: Cloud) -> None:
    good = event("glue_update_table").decode().replace("raw", "shop")
    for body in (good, "poison", good):
        cloud.send(body)
    assert cloud.poll()[1] == ["poison"]
    assert cloud.rows().tables[ORDERS].dirty == 1
    assert cloud.poll()[1] == ["poison"], "the dead-letter queue of SQS may receive it first"
    assert cloud.store.letters() == ()
    assert cloud.poll()[1] == []
    assert [(letter.source, letter.body) for letter in cloud.store.letters()] == [("sqs", "poison")]
    assert not cloud.sqs.receive_message(QueueUrl=cloud.queue).get("Messages")


def test_object_of_an_unregistered_table_is_acknowledged_and_ignored(cloud: Cloud) -> None:
    cloud.put("shop/orders/metadata/00002-b.metadata.json")
    assert cloud.poll() == ({"batchItemFailures": []}, [])
    assert not cloud.rows().tables
    assert cloud.store.letters() == ()


def test_messages_are_redelivered_while_the_state_is_unreachable(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.put("shop/orders_changelog/metadata/00002-b.metadata.json")

    def fail(*_: object) -> None:
        raise Transient("throttled")

    monkeypatch.setattr("trigger.dispatch.ingest.apply", fail)
    assert len(cloud.poll()[1]) == 1
    monkeypatch.undo()
    cloud.poll()
    assert not cloud.sqs.receive_message(QueueUrl=cloud.queue).get("Messages")


def test_failed_launch_does_not_redeliver_messages(cloud: Cloud) -> None:
    cloud.launcher.fails = True
    cloud.put("shop/orders_changelog/metadata/00002-b.metadata.json")
    assert cloud.poll() == ({"batchItemFailures": []}, [])
    assert cloud.rows().tables[ORDERS].dirty == 1


def test_eventbridge_event_is_ingested(cloud: Cloud) -> None:
    update = json.loads(event("glue_update_table").decode().replace("raw", "shop"))
    assert module.handler(update, None) == {"tables": [ORDERS]}
    assert len(cloud.launcher.launches) == 1
    assert module.handler({"source": "aws.ec2", "detail-type": "x"}, None) == {"tables": []}
    assert [letter.source for letter in cloud.store.letters()] == ["eventbridge"]


@pytest.mark.parametrize(
    "scheduled", [{"source": "aws.events", "detail-type": "Scheduled Event"}, {"icemirror": "sweep"}]
)
def test_scheduled_event_sweeps(cloud: Cloud, scheduled: dict[str, str]) -> None:
    assert module.handler(scheduled, None) == {"tables": ["shop.items", ORDERS]}
    assert cloud.rows().tables[ORDERS].noticed_head == HEAD
    assert len(cloud.launcher.launches) == 2, "one for each group"


def test_clients_are_created_once(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[object] = []
    real = boto3.session.Session.client

    def client(*arguments: Any, **named: Any) -> Any:
        created.append(arguments)
        return real(*arguments, **named)

    monkeypatch.setattr(boto3.session.Session, "client", client)
    for _ in range(3):
        module.handler({"icemirror": "sweep"}, None)
    assert len(created) <= 1


def test_remaining_time_is_that_of_the_lambda_runtime(cloud: Cloud) -> None:
    class Short:
        def get_remaining_time_in_millis(self) -> int:
            return 6000

    assert module._invocation_seconds(Short()) == 6.0
    assert module._invocation_seconds(object()) == 900.0


def lambda_function(scene: Scene) -> module.LambdaFunction:
    """Return the function with the scene's clock, which only sleeping advances."""

    def sleep(seconds: float) -> None:
        scene.now += seconds

    return module.LambdaFunction(scene.ingest, clock=lambda: scene.now, sleep=sleep)


@pytest.mark.parametrize(("seconds_left", "launches"), [(6.9, 0), (7.1, 1)])
def test_function_does_not_wait_beyond_its_deadline(scene: Scene, seconds_left: float, launches: int) -> None:
    began = scene.now
    lambda_function(scene).handle({"table": "shop.orders_changelog"}, seconds_left)
    assert len(scene.launcher.launches) == launches
    assert scene.now - began <= seconds_left - 5.0


def test_time_spent_on_polling_heads_is_not_available_for_waiting(scene: Scene) -> None:
    def slow() -> None:
        scene.now += 19.5

    scene.catalogs[None].before = slow
    began = scene.now
    lambda_function(scene).handle({"icemirror": "sweep"}, 26.0)
    assert scene.now - began <= 21.0
    assert scene.launcher.launches == [], "the quiet period is longer than the remaining time"


def test_polling_heads_takes_at_most_twenty_seconds(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts: list[float] = []

    def refresh(patience_seconds: float) -> None:
        timeouts.append(patience_seconds)

    def heads(patience_seconds: float) -> dict[str, str]:
        timeouts.append(patience_seconds)
        return {}

    monkeypatch.setattr(scene.dispatcher.registry, "refresh", refresh)
    monkeypatch.setattr(scene.dispatcher.registry, "poll_heads", heads)
    for seconds_left in (900.0, 15.0, 1.0):
        lambda_function(scene).handle({"icemirror": "sweep"}, seconds_left)
    assert timeouts == [20.0, 20.0, 10.0, 10.0, 0.0, 0.0]


def test_failed_cold_start_is_logged_and_raised(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ICEMIRROR_CONFIG", "/nowhere.yaml")
    with pytest.raises(IcemirrorError, match="nowhere"):
        module.handler({"icemirror": "sweep"}, None)
    assert "invocation failed" in caplog.text


def test_cold_start_that_fails_after_loading_the_configuration_is_reported(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Transient("DynamoDB is unreachable")

    reported: list[BaseException] = []
    monkeypatch.setattr("icemirror.stores.from_settings.open_store", fail)
    monkeypatch.setattr(module, "open_report", lambda settings: reported.append)
    with pytest.raises(Transient):
        module.handler({"icemirror": "sweep"}, None)
    assert [str(error) for error in reported] == ["DynamoDB is unreachable"]


def test_failed_sweep_is_raised_for_lambda_to_retry(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise Transient("throttled")

    monkeypatch.setattr(dispatchers, "apply", fail)
    with pytest.raises(Transient):
        module.handler({"icemirror": "sweep"}, None)


def kafka_event(*records: dict[str, Any]) -> dict[str, Any]:
    return {"eventSource": "aws:kafka", "records": {"catalog-events-0": list(records)}}


def test_kafka_records_are_ingested_and_malformed_ones_become_dead_letters(cloud: Cloud) -> None:
    record = {"value": base64.b64encode(b'{"table": "shop.orders_changelog"}').decode(), "headers": []}
    poison = {"value": base64.b64encode(b"poison").decode()}
    answer = module.handler(
        kafka_event(record, poison, {"value": None, "headers": []}, {"value": "%"}), object()
    )
    assert answer == {"tables": [ORDERS]}
    assert cloud.rows().tables[ORDERS].dirty == 1
    assert {letter.source for letter in cloud.store.letters()} == {"kafka"}
    assert {letter.body for letter in cloud.store.letters()} == {"poison", "%"}


def test_unstored_records_are_redelivered(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"value": base64.b64encode(b'{"table": "shop.orders_changelog"}').decode()}
    module.handler({"icemirror": "sweep"}, object())
    monkeypatch.setattr(
        module._open_function().ingest,
        "accept",
        lambda bodies: [NotStored(Transient("no answer")) for _ in bodies],
    )
    with pytest.raises(Transient):
        module.handler(kafka_event(record), object())


def test_cloud_event_in_kafka_headers_is_decoded() -> None:
    headers = [
        {name: list(value.encode())}
        for name, value in (("ce_specversion", "1.0"), ("ce_type", "updateTable"), ("ce_source", "é"))
    ]
    signed = [
        {name: [number - 256 if number > 127 else number for number in numbers]}
        for header in headers
        for name, numbers in header.items()
    ]
    (body,) = decode_lambda_records({"t-0": [{"value": base64.b64encode(b"{}").decode(), "headers": signed}]})
    assert json.loads(body) == {"specversion": "1.0", "type": "updateTable", "source": "é", "data": {}}


def test_sweep_logs_a_summary_of_all_tables(cloud: Cloud, capfd: pytest.CaptureFixture[str]) -> None:
    module.handler({"icemirror": "sweep"}, object())
    (summary,) = [
        entry
        for line in capfd.readouterr().err.splitlines()
        if (entry := json.loads(line))["event"] == "swept"
    ]
    assert (summary["tables"], summary["waiting"], summary["quarantined"]) == (2, 2, 0)
    assert 0 <= summary["lag_seconds"] < 60


def test_configuration_is_read_from_the_environment(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = Path(os.environ["ICEMIRROR_CONFIG"]).read_text()
    monkeypatch.delenv("ICEMIRROR_CONFIG")
    monkeypatch.setenv("ICEMIRROR_CONFIG_PACKED", pack_config(config))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert ORDERS in module.handler({"icemirror": "sweep"}, object())["tables"]
