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
from icemirror.protocol.reads import EVERYTHING
from icemirror.protocol.rows import Rows
from icemirror.stores.from_settings import open_store
from icemirror.stores.store import Store
from tests.unit.trigger.fakes import FakeHeads, FakeLauncher, settings
from tests.unit.trigger.scene import Scene
from tests.unit.trigger.sources.test_sources import event
from trigger import handler as module
from trigger import wiring
from trigger.dispatch import fleet as fleets
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
        told = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
        self.s3.put_bucket_notification_configuration(Bucket="lake", NotificationConfiguration=told)
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
        given = settings(
            folder, state="{type: dynamodb, table: icemirror}", quiet_period="0s",
            launcher="{type: emr-serverless, application_id: a, execution_role_arn: 'arn:x', entry_point: 's3://x/y'}",
        )  # fmt: skip
        monkeypatch.setenv("ICEMIRROR_CONFIG", str(given.source_path))
        self.store: Store = open_store(given)

    def put(self, key: str) -> None:
        self.s3.put_object(Bucket="lake", Key=key, Body=b"{}")

    def send(self, body: str) -> None:
        self.sqs.send_message(QueueUrl=self.queue, MessageBody=body)

    def poll(self) -> tuple[dict[str, Any], list[str]]:
        """Pass one batch to the handler and delete what did not fail, like Lambda; return answer and failed bodies."""
        got = self.sqs.receive_message(
            QueueUrl=self.queue,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        ).get("Messages", [])
        records = [
            {
                "messageId": one["MessageId"],
                "body": one["Body"],
                "attributes": one["Attributes"],
                "eventSource": "aws:sqs",
            }
            for one in got
        ]
        answer = module.handler({"Records": records}, object())
        failed = {one["itemIdentifier"] for one in answer["batchItemFailures"]}
        for one in got:
            if one["MessageId"] not in failed:
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=one["ReceiptHandle"])
        return answer, [one["Body"] for one in got if one["MessageId"] in failed]

    def rows(self) -> Rows:
        return self.store.load(EVERYTHING)


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
    if module._function.cache_info().currsize:
        module._function().ingest.fleet.registry.close()
    for cached in (module._function, module._settings, module._report):
        cached.cache_clear()
    logging.getLogger().handlers[:] = handlers


def test_an_object_in_s3_becomes_a_row_in_dynamodb_and_a_launch(cloud: Cloud) -> None:
    cloud.put("shop/orders_changelog/data/00000-a.parquet")
    cloud.put("shop/orders_changelog/metadata/00002-b.metadata.json")
    assert cloud.poll() == ({"batchItemFailures": []}, [])
    assert cloud.rows().tables[ORDERS].dirty == 1
    assert len(cloud.launcher.launches) == 1
    cloud.put("shop/orders_changelog/metadata/00003-c.metadata.json")
    cloud.poll()
    assert cloud.rows().tables[ORDERS].dirty == 2
    assert len(cloud.launcher.launches) == 1, "the worker that was launched takes it"


def test_poison_in_the_middle_of_a_batch_fails_alone_and_ends_as_a_dead_letter(cloud: Cloud) -> None:
    good = event("glue_update_table").decode().replace("raw", "shop")
    for body in (good, "poison", good):
        cloud.send(body)
    assert cloud.poll()[1] == ["poison"]
    assert cloud.rows().tables[ORDERS].dirty == 1
    assert cloud.poll()[1] == ["poison"], "the queue's own dead-letter queue may take it first"
    assert cloud.store.letters() == ()
    assert cloud.poll()[1] == []
    assert [(letter.source, letter.body) for letter in cloud.store.letters()] == [("sqs", "poison")]
    assert not cloud.sqs.receive_message(QueueUrl=cloud.queue).get("Messages")


def test_object_of_an_unregistered_table_is_acknowledged_without_trace(cloud: Cloud) -> None:
    cloud.put("shop/orders/metadata/00002-b.metadata.json")
    assert cloud.poll() == ({"batchItemFailures": []}, [])
    assert not cloud.rows().tables
    assert cloud.store.letters() == ()


def test_messages_are_delivered_again_while_the_state_does_not_answer(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.put("shop/orders_changelog/metadata/00002-b.metadata.json")

    def silent(*_: object) -> None:
        raise Transient("throttled")

    monkeypatch.setattr("trigger.dispatch.ingest.apply", silent)
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
    told = json.loads(event("glue_update_table").decode().replace("raw", "shop"))
    assert module.handler(told, None) == {"tables": [ORDERS]}
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
    made: list[object] = []
    real = boto3.session.Session.client

    def client(*given: Any, **named: Any) -> Any:
        made.append(given)
        return real(*given, **named)

    monkeypatch.setattr(boto3.session.Session, "client", client)
    for _ in range(3):
        module.handler({"icemirror": "sweep"}, None)
    assert len(made) <= 1


def test_remaining_time_is_the_runtimes(cloud: Cloud) -> None:
    class Short:
        def get_remaining_time_in_millis(self) -> int:
            return 6000

    assert module._seconds_left(Short()) == 6.0
    assert module._seconds_left(object()) == 900.0


def function_of(scene: Scene) -> module.LambdaFunction:
    """The function on the scene's clock, in which only waiting takes time."""

    def sleep(seconds: float) -> None:
        scene.now += seconds

    return module.LambdaFunction(scene.ingest, clock=lambda: scene.now, sleep=sleep)


@pytest.mark.parametrize(("seconds_left", "launches"), [(6.9, 0), (7.1, 1)])
def test_function_does_not_wait_beyond_its_deadline(scene: Scene, seconds_left: float, launches: int) -> None:
    began = scene.now
    function_of(scene).handle({"table": "shop.orders_changelog"}, seconds_left)
    assert len(scene.launcher.launches) == launches
    assert scene.now - began <= seconds_left - 5.0


def test_time_spent_on_polling_heads_is_not_available_for_waiting(scene: Scene) -> None:
    def slow() -> None:
        scene.now += 19.5

    scene.catalogs[None].before = slow
    began = scene.now
    function_of(scene).handle({"icemirror": "sweep"}, 26.0)
    assert scene.now - began <= 21.0
    assert scene.launcher.launches == [], "the quiet period is longer than what was left"


def test_polling_heads_takes_at_most_twenty_seconds(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def refresh(patience_seconds: float) -> None:
        given.append(patience_seconds)

    def heads(patience_seconds: float) -> dict[str, str]:
        given.append(patience_seconds)
        return {}

    monkeypatch.setattr(scene.fleet.registry, "refresh", refresh)
    monkeypatch.setattr(scene.fleet.registry, "poll_heads", heads)
    for seconds_left in (900.0, 15.0, 1.0):
        function_of(scene).handle({"icemirror": "sweep"}, seconds_left)
    assert given == [20.0, 20.0, 10.0, 10.0, 0.0, 0.0]


def test_a_cold_start_that_fails_is_logged_and_raised(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ICEMIRROR_CONFIG", "/nowhere.yaml")
    with pytest.raises(IcemirrorError, match="nowhere"):
        module.handler({"icemirror": "sweep"}, None)
    assert "invocation failed" in caplog.text


def test_a_cold_start_that_fails_after_the_configuration_is_reported(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise Transient("DynamoDB is unreachable")

    told: list[BaseException] = []
    monkeypatch.setattr("icemirror.stores.from_settings.open_store", broken)
    monkeypatch.setattr(module, "open_report", lambda settings: told.append)
    with pytest.raises(Transient):
        module.handler({"icemirror": "sweep"}, None)
    assert [str(error) for error in told] == ["DynamoDB is unreachable"]


def test_a_failure_of_the_function_itself_is_raised_for_lambda_to_retry(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise Transient("throttled")

    monkeypatch.setattr(fleets, "apply", broken)
    with pytest.raises(Transient):
        module.handler({"icemirror": "sweep"}, None)


def of_kafka(*records: dict[str, Any]) -> dict[str, Any]:
    return {"eventSource": "aws:kafka", "records": {"catalog-events-0": list(records)}}


def test_kafka_records_are_ingested_and_poison_becomes_dead_letters(cloud: Cloud) -> None:
    told = {"value": base64.b64encode(b'{"table": "shop.orders_changelog"}').decode(), "headers": []}
    poison = {"value": base64.b64encode(b"poison").decode()}
    answer = module.handler(of_kafka(told, poison, {"value": None, "headers": []}, {"value": "%"}), object())
    assert answer == {"tables": [ORDERS]}
    assert cloud.rows().tables[ORDERS].dirty == 1
    assert {letter.source for letter in cloud.store.letters()} == {"kafka"}
    assert {letter.body for letter in cloud.store.letters()} == {"poison", "%"}


def test_records_that_could_not_be_stored_are_delivered_again(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"value": base64.b64encode(b'{"table": "shop.orders_changelog"}').decode()}
    module.handler({"icemirror": "sweep"}, object())
    monkeypatch.setattr(
        module._function().ingest, "accept", lambda bodies: [Transient("no answer") for _ in bodies]
    )
    with pytest.raises(Transient):
        module.handler(of_kafka(told), object())


def test_a_cloud_event_in_headers_is_one_event() -> None:
    headers = [
        {name: list(value.encode())}
        for name, value in (("ce_specversion", "1.0"), ("ce_type", "updateTable"), ("ce_source", "é"))
    ]
    signed = [
        {name: [number - 256 if number > 127 else number for number in numbers]}
        for one in headers
        for name, numbers in one.items()
    ]
    (body,) = decode_lambda_records({"t-0": [{"value": base64.b64encode(b"{}").decode(), "headers": signed}]})
    assert json.loads(body) == {"specversion": "1.0", "type": "updateTable", "source": "é", "data": {}}


def test_sweep_logs_a_summary_of_all_tables(cloud: Cloud, capfd: pytest.CaptureFixture[str]) -> None:
    module.handler({"icemirror": "sweep"}, object())
    (told,) = [
        one for line in capfd.readouterr().err.splitlines() if (one := json.loads(line))["event"] == "swept"
    ]
    assert (told["tables"], told["waiting"], told["quarantined"]) == (2, 2, 0)
    assert 0 <= told["lag_seconds"] < 60


def test_the_configuration_may_be_in_the_environment(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = Path(os.environ["ICEMIRROR_CONFIG"]).read_text()
    monkeypatch.delenv("ICEMIRROR_CONFIG")
    monkeypatch.setenv("ICEMIRROR_CONFIG_PACKED", pack_config(given))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert ORDERS in module.handler({"icemirror": "sweep"}, object())["tables"]
