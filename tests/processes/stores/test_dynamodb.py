"""The DynamoDB store: conformance, and the errors of its failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.protocol.events import Noticed
from icemirror.protocol.row_selection import ALL_ROWS, NO_SLOTS, RowSelection
from icemirror.protocol.rows import SlotRow, TableRow
from icemirror.result import SliceResult, TableResult
from icemirror.settings.trigger import DynamoDbState
from icemirror.stores.apply import apply
from icemirror.stores.dead_letters import MAX_AGE_SECONDS, new_letter
from icemirror.stores.dynamodb import DynamoDbStore
from icemirror.stores.dynamodb_table import classify_error, open_client
from icemirror.stores.store import TurnResult
from tests.processes.stores.emulated_dynamodb import (
    CREDENTIALS,
    REGION,
    SerializedApplication,
    create_table,
    emulated_dynamodb,
    open_emulated,
    state_at,
)
from tests.processes.stores.store_suite import OpenStore, StoreSuite
from tests.unit.icemirror.protocol.samples import OPTIONS, POLICY, SLOT
from tests.unit.icemirror.stores.stored_rows import SLOT_ROW, STORED, TABLE


@pytest.fixture(scope="module")
def _server() -> Iterator[tuple[str, SerializedApplication]]:
    with emulated_dynamodb() as server:
        yield server


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def endpoint(_server: tuple[str, SerializedApplication]) -> Iterator[str]:
    yield _server[0]
    _server[1].fault = None


@pytest.fixture
def application(_server: tuple[str, SerializedApplication]) -> SerializedApplication:
    return _server[1]


@pytest.fixture
def table(endpoint: str) -> str:
    name = f"state-{uuid4().hex[:8]}"
    create_table(endpoint, name)
    return name


@pytest.fixture
def store(endpoint: str, table: str) -> Iterator[DynamoDbStore]:
    with open_emulated(endpoint, table) as opened:
        yield opened


@pytest.fixture
def client(endpoint: str) -> Iterator[Any]:
    opened = boto3.client("dynamodb", region_name=REGION, endpoint_url=endpoint)
    yield opened
    opened.close()


class TestDynamoDbStore(StoreSuite):
    NOTICES = 15

    @pytest.fixture(autouse=True)
    def _table(self, endpoint: str, table: str) -> None:
        self.endpoint, self.table = endpoint, table

    def opener(self) -> OpenStore:
        return partial(open_emulated, self.endpoint, self.table, self.KEPT_RESULTS, self.KEPT_LETTERS)


def put(client: Any, table: str, kind: str, key: str, **texts: str) -> None:
    item = {"kind": {"S": kind}, "key": {"S": key}, **{name: {"S": text} for name, text in texts.items()}}
    client.put_item(TableName=table, Item=item)


def test_rows_that_version_1_wrote_still_load(store: DynamoDbStore, client: Any, table: str) -> None:
    put(client, table, "table", TABLE.name, body=json.dumps(STORED["table"]), revision="r")
    put(client, table, "slot", str(SLOT), body=json.dumps(STORED["slot"]), revision="r")
    rows = store.load(ALL_ROWS)
    assert (rows.tables, rows.slots) == ({TABLE.name: TABLE}, {SLOT: SLOT_ROW})
    assert store.compare_and_set(rows.tables[TABLE.name])


def test_row_of_a_newer_version_is_refused_with_a_remedy(
    store: DynamoDbStore, client: Any, table: str
) -> None:
    put(client, table, "table", "t", body='{"version": 2, "name": "t"}', revision="r")
    with pytest.raises(Invalid, match=r"version 2.*Upgrade"):
        store.load(ALL_ROWS)


@pytest.mark.parametrize("texts", [{}, {"body": '{"version": 1, "name": "t"}'}, {"revision": "r"}])
def test_incomplete_item_is_reported(
    store: DynamoDbStore, client: Any, table: str, texts: dict[str, str]
) -> None:
    put(client, table, "table", "t", **texts)
    with pytest.raises(Invalid, match=r"item table, t of the state .* damaged.*Delete it"):
        store.load(ALL_ROWS)


def test_item_without_a_row_is_reported(store: DynamoDbStore, client: Any, table: str) -> None:
    put(client, table, "slot", "default-0", body="{", revision="r")
    with pytest.raises(Invalid, match=r"damaged.*Delete the row"):
        store.load(ALL_ROWS)


def test_rows_of_several_pages_are_all_loaded(store: DynamoDbStore) -> None:
    heavy = "s3://bucket/" + "x" * 20_000
    names = frozenset(f"shop.t{number}" for number in range(120))
    for name in names:
        assert store.compare_and_set(TableRow(name, noticed_head=heavy))
    assert set(store.load(ALL_ROWS).tables) == names  # more than a megabyte: several pages
    assert set(store.load(RowSelection(names, NO_SLOTS)).tables) == names  # more than a hundred keys


def test_every_read_is_consistent(store: DynamoDbStore) -> None:
    store.compare_and_set(TableRow("t"))
    read: list[str] = []

    def check_consistent(params: dict[str, Any], model: Any, **_: object) -> None:
        options = [params, *params.get("RequestItems", {}).values()]
        assert any(option.get("ConsistentRead") for option in options), model.name
        read.append(model.name)

    events = store._items._client.meta.events
    for operation in ("GetItem", "BatchGetItem", "Query", "Scan"):
        events.register(f"provide-client-params.dynamodb.{operation}", check_consistent)
    store.load(ALL_ROWS)
    store.load(RowSelection(frozenset({"t"}), NO_SLOTS))
    store.results_since("")
    store.last_cursor()
    store.letters()
    assert set(read) == {"BatchGetItem", "Query"}


def test_retried_write_with_a_lost_response_counts_as_written(
    store: DynamoDbStore, application: SerializedApplication
) -> None:
    lost: list[str] = []

    def lose_first_write(environ: Any, start: Any, answer: Any) -> Any:
        if "PutItem" in environ.get("HTTP_X_AMZ_TARGET", "") and not lost:
            lost.append("written, but the response is lost")
            answer()
            return refuse("InternalServerError", 1, "500 Internal Server Error")(environ, start, answer)
        return answer()

    application.fault = lose_first_write
    assert store.compare_and_set(TableRow("t", dirty=1))
    assert lost
    found = store.load(ALL_ROWS).tables["t"]
    lost.clear()
    assert store.compare_and_set(TableRow("t", dirty=2, revision=found.revision))
    assert lost
    assert not store.compare_and_set(TableRow("t", dirty=3, revision=found.revision))


def refuse(code: str, times: int, status: str = "400 Bad Request") -> Any:
    left = [times]

    def fault(environ: Any, start: Any, answer: Any) -> Any:
        if left[0] == 0:
            return answer()
        left[0] -= 1
        start(status, [("Content-Type", "application/x-amz-json-1.0")])
        return [json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}"}).encode()]

    return fault


def test_request_throttled_once_is_retried(store: DynamoDbStore, application: SerializedApplication) -> None:
    application.fault = refuse("ProvisionedThroughputExceededException", 1)
    assert apply(store, Noticed(1.0, "t", OPTIONS), POLICY).new_row is not None


def test_persistent_throttling_is_transient(store: DynamoDbStore, application: SerializedApplication) -> None:
    application.fault = refuse("ThrottlingException", -1)
    with pytest.raises(Transient, match="ThrottlingException"):
        store.load(ALL_ROWS)


def test_unprocessed_keys_are_requested_again(
    store: DynamoDbStore, application: SerializedApplication
) -> None:
    for name in "ab":
        store.compare_and_set(TableRow(name))
    complete = store._items._client.batch_get_item
    requests: list[Any] = []

    def answer_half(RequestItems: Any) -> Any:  # noqa: N803 (name in boto3)
        requests.append(RequestItems)
        if len(requests) > 1:
            return complete(RequestItems=RequestItems)
        ((table, wanted),) = RequestItems.items()
        first, *rest = wanted["Keys"]
        answer = complete(RequestItems={table: {**wanted, "Keys": [first]}})
        return {**answer, "UnprocessedKeys": {table: {**wanted, "Keys": rest}}}

    store._items._client.batch_get_item = answer_half
    assert set(store.load(RowSelection(frozenset("ab"), NO_SLOTS)).tables) == {"a", "b"}
    assert len(requests) == 2


def test_missing_table_is_reported_with_a_remedy(endpoint: str) -> None:
    with open_emulated(endpoint, "nowhere") as store:
        for request in (
            lambda: store.load(ALL_ROWS),
            lambda: store.load(RowSelection(frozenset({"t"}), NO_SLOTS)),
            lambda: store.compare_and_set(SlotRow(SLOT)),
            store.letters,
        ):
            with pytest.raises(Invalid, match=r"does not exist in this region: create it.*nowhere"):
                request()


def test_table_with_wrong_keys_is_reported(endpoint: str) -> None:
    create_table(endpoint, "foreign", [{"AttributeName": "id", "KeyType": "HASH"}])
    with (
        open_emulated(endpoint, "foreign") as store,
        pytest.raises(Invalid, match="a separate table"),
    ):
        store.compare_and_set(SlotRow(SLOT))


def test_row_that_is_too_large_is_reported(store: DynamoDbStore) -> None:
    with pytest.raises(Invalid, match="exceeds DynamoDB's limit"):
        store.compare_and_set(TableRow("t", noticed_head="x" * 500_000))


def test_unreachable_endpoint_is_transient() -> None:
    with (
        open_emulated("http://127.0.0.1:1", "t", attempts=1) as store,
        pytest.raises(Transient, match=r"did not respond.*EndpointConnectionError"),
    ):
        store.load(ALL_ROWS)


def test_missing_credentials_block(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with open_emulated(endpoint, "t") as store, pytest.raises(Invalid, match="check the credentials"):
        store.load(ALL_ROWS)


def test_missing_region_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadConfig, match="no AWS region is set"):
        open_client(DynamoDbState(type="dynamodb", table="t"))


def test_invalid_endpoint_is_a_configuration_error() -> None:
    with pytest.raises(BadConfig, match=r"trigger\.state"):
        open_client(state_at("nonsense", "t"))


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("AccessDeniedException", Invalid, "check the credentials"),
        ("UnrecognizedClientException", Invalid, "check the credentials"),
        ("ExpiredTokenException", Transient, "try again"),
        ("ThrottlingException", Transient, "try again"),
        ("ProvisionedThroughputExceededException", Transient, "try again"),
        ("RequestLimitExceeded", Transient, "try again"),
        ("InternalServerError", Transient, "try again"),
        ("ServiceUnavailable", Transient, "try again"),
    ],
)
def test_failures_have_a_remedy(code: str, kind: type[Exception], words: str) -> None:
    error = classify_error("t", ClientError({"Error": {"Code": code, "Message": "m"}}, "Query"))
    assert type(error) is kind
    assert words in str(error)


@pytest.mark.parametrize(
    "error", [EndpointConnectionError(endpoint_url="x"), ReadTimeoutError(endpoint_url="x")]
)
def test_no_response_is_transient(error: Any) -> None:
    assert isinstance(classify_error("t", error), Transient)


def test_letter_has_a_time_to_live(store: DynamoDbStore, client: Any, table: str) -> None:
    letter = new_letter("sqs", "r", 100.5, "event")
    store.put_letter(letter)
    item = client.get_item(TableName=table, Key={"kind": {"S": "letter"}, "key": {"S": letter.id}})["Item"]
    assert item["expires_at"] == {"N": str(int(100.5 + MAX_AGE_SECONDS))}


def test_new_letter_is_stored_without_reading_others(store: DynamoDbStore) -> None:
    store.put_letter(new_letter("sqs", "r", 0.0, "the first one makes the index"))

    def refuse_to_read(params: dict[str, Any], **_: object) -> None:
        raise AssertionError(params)

    store._items._client.meta.events.register("provide-client-params.dynamodb.Query", refuse_to_read)
    for at in range(8):
        store.put_letter(new_letter("sqs", "r", float(at), f"event {at}" + "x" * 60_000))
    store._items._client.meta.events.unregister("provide-client-params.dynamodb.Query", refuse_to_read)
    assert [letter.received_at for letter in store.letters()] == [4.0, 5.0, 6.0, 7.0]


@pytest.mark.parametrize("body", [None, "{", '{"version": 2, "letters": []}'])
def test_lost_or_damaged_index_of_letters_is_rebuilt(
    store: DynamoDbStore, client: Any, table: str, body: str | None
) -> None:
    for at in range(4):
        store.put_letter(new_letter("sqs", "r", float(at), f"event {at}"))
    key = {"kind": {"S": "letters"}, "key": {"S": "letters"}}
    item = client.get_item(TableName=table, Key=key)["Item"]
    client.delete_item(TableName=table, Key=key)
    if body is not None:
        client.put_item(TableName=table, Item={**item, "body": {"S": body}})
    store.put_letter(new_letter("sqs", "r", 9.0, "event 9"))
    assert [letter.received_at for letter in store.letters()] == [1.0, 2.0, 3.0, 9.0]


def test_result_of_many_slices_is_stored_without_the_first_slices(store: DynamoDbStore) -> None:
    counts = dict.fromkeys(SliceResult.model_fields, 1) | {"seconds_by_step": {"plan": 0.1}}
    slices = tuple(SliceResult.model_validate({**counts, "snapshot_id": at}) for at in range(2000))
    result = TableResult(table="t", outcome="merged", seconds=1.0, slices=slices)
    store.record_result(TurnResult("r", 1.0, result))
    (found,) = store.results_since("").results
    assert 0 < len(found.table_result.slices) < 2000
    assert found.table_result.slices[-1] == slices[-1]


def test_result_of_another_release_is_skipped(store: DynamoDbStore, client: Any, table: str) -> None:
    item = {"kind": {"S": "result"}, "key": {"S": "00000000000000000001"}, "at": {"N": "1"}}
    client.put_item(TableName=table, Item={**item, "run_id": {"S": "r"}, "body": {"S": '{"shape": 2}'}})
    page = store.results_since("")
    assert (page.results, page.cursor) == ((), "00000000000000000001")


def test_store_is_opened_from_the_configuration(endpoint: str, table: str, tmp_path: Path) -> None:
    from icemirror.config_file.load import load_settings
    from icemirror.stores.from_settings import open_store, read_rows

    (tmp_path / "icemirror.yaml").write_text(
        "iceberg: {catalog: {type: sql, uri: 'sqlite:////x.db', warehouse: 'file:///x'}}\n"
        "tables: [{changelog: shop.t_changelog, mirror: shop.t}]\n"
        f"trigger: {{state: {{type: dynamodb, table: {table}, region: {REGION}, endpoint: '{endpoint}'}}}}\n"
    )
    settings = load_settings(tmp_path / "icemirror.yaml", {})
    with open_store(settings) as opened:
        assert opened.compare_and_set(TableRow("t", dirty=1))
    assert read_rows(settings).tables["t"].dirty == 1
