"""Every recorded event gives the expected hints; other events are refused."""

from __future__ import annotations

import gc
import json
import weakref
from dataclasses import replace

import pytest

from tests.unit.trigger.sources.recorded_events import EVENTS, event, s3_event
from trigger.sources.event_json import MAX_EVENT_BYTES, MAX_EVENT_DEPTH, parse_body
from trigger.sources.hints import Hint, LocationHint, NameHint, RunHint
from trigger.sources.object_location import ObjectLocation, parse_location
from trigger.sources.parse_hints import parse_hints
from trigger.sources.refusal import EventRefused, RefusalReason

METADATA = LocationHint(
    ObjectLocation("s3", "lake", "raw/orders_changelog/metadata/00012-5f3c.metadata.json")
)
ENCODED = LocationHint(ObjectLocation("s3", "lake", "raw/my ordersé/metadata/00001-+.metadata.json"))
ORDERS, ITEMS = NameHint(("raw", "orders_changelog")), NameHint(("raw", "items_changelog"))

EXPECTED: dict[str, tuple[Hint, ...]] = {
    "s3_sqs_metadata": (METADATA,),
    "s3_sqs_encoded_key": (ENCODED,),
    "s3_sqs_data_file": (),
    "s3_sqs_test_event": (),
    "s3_sns_sqs": (METADATA,),
    "s3_eventbridge_metadata": (METADATA,),
    "s3_eventbridge_deleted": (),
    "glue_update_table": (ORDERS,),
    "glue_delete_table": (),
    "glue_database_change": (),
    "s3_tables_commit": (ORDERS,),
    "s3_tables_maintenance": (),
    "s3_tables_maintenance_commit": (),
    "s3_tables_refused_commit": (),
    "lakekeeper_update_structured": (ORDERS,),
    "lakekeeper_update_binary": (ORDERS,),
    "lakekeeper_nested_namespace": (NameHint(("lake", "raw", "orders_changelog")),),
    "lakekeeper_drop_table": (),
    "polaris_update_cloudevent": (ORDERS,),
    "polaris_update_binary": (ORDERS,),
    "polaris_update_flat": (ORDERS,),
    "polaris_load_table": (),
    "nessie_content_stored": (ORDERS,),
    "nessie_key_as_list": (ORDERS,),
    "nessie_content_stored_cloudevent": (ORDERS,),
    "nessie_commit": (),
    "nessie_namespace_stored": (),
    "commit_report": (NameHint(("raw", "orders_changelog"), may_have_catalog_prefix=True),),
    "commit_report_java": (NameHint(("rest", "raw", "orders_changelog"), may_have_catalog_prefix=True),),
    "scan_report": (),
    "generic_table": (replace(ORDERS, may_be_mirror_name=True),),
    "generic_tables": (replace(ORDERS, may_be_mirror_name=True), replace(ITEMS, may_be_mirror_name=True)),
    "generic_location": (METADATA,),
    "emr_serverless_success": (RunHint("00f5cbn5g4bb0c09"),),
    "emr_serverless_application": (),
    "spark_application_completed": (RunHint("icemirror-default-0-1772446530000"),),
    "spark_application_watch": (RunHint("icemirror-default-0-1772446530000"),),
}


def refusal(body: bytes) -> RefusalReason:
    with pytest.raises(EventRefused) as caught:
        parse_hints(body)
    return caught.value.refusal.reason


def test_every_recorded_event_has_an_expected_result() -> None:
    assert {file.stem for file in EVENTS.glob("*.json")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_recorded_event_gives_its_hints(name: str) -> None:
    assert parse_hints(event(name)) == EXPECTED[name]


def test_eventbridge_key_is_read_raw_and_decoded() -> None:
    detail = {"bucket": {"name": "lake"}, "object": {"key": "a%2Fmetadata/1+.metadata.json"}}
    created = {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}
    keys = [
        hint.location.key
        for hint in parse_hints(json.dumps(created).encode())
        if isinstance(hint, LocationHint)
    ]
    assert keys == ["a%2Fmetadata/1+.metadata.json", "a/metadata/1 .metadata.json"]


def test_key_is_decoded_once() -> None:
    (hint,) = parse_hints(s3_event("a/%252e%252e/b.metadata.json"))
    assert hint == LocationHint(ObjectLocation("s3", "lake", "a/%2e%2e/b.metadata.json"))


@pytest.mark.parametrize(
    "key",
    [
        "raw/../secret/1.metadata.json",
        "raw/%2e%2e/1.metadata.json",
        "raw/./1.metadata.json",
        "raw/a%00.metadata.json",
        "raw/a%0a.metadata.json",
        "raw/a\u0085.metadata.json",
        "raw/%ff.metadata.json",
        f"{'a' * 1100}.metadata.json",
    ],
)
def test_ambiguous_key_is_refused(key: str) -> None:
    assert refusal(s3_event(key)) is RefusalReason.UNSAFE_KEY


def test_size_of_a_body_is_checked_before_parsing() -> None:
    padding = b" " * (MAX_EVENT_BYTES - len(b'{"table":"a.b"}'))
    assert parse_hints(b'{"table":"a.b"}' + padding)
    assert refusal(b'{"table":"a.b"}' + padding + b" ") is RefusalReason.TOO_LARGE


def test_depth_of_a_body_is_limited() -> None:
    def nested(depth: int) -> bytes:
        return b'{"table":"a.b","x":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"

    assert parse_hints(nested(MAX_EVENT_DEPTH))
    assert refusal(nested(MAX_EVENT_DEPTH + 1)) is RefusalReason.TOO_DEEP
    assert refusal(b"[" * MAX_EVENT_BYTES) is RefusalReason.TOO_DEEP


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    assert parse_body(json.dumps({"table": "[" * 100 + '"{\\"' * 30}).encode())


def test_depth_of_an_unterminated_string_is_computed_in_linear_time() -> None:
    assert refusal(b'{"a":"' + b'\\"' * 32_000) is RefusalReason.MALFORMED


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no",
        b"[]",
        b"1",
        b"null",
        b'{"table":NaN}',
        b"\xff\xfe",
        b'{"table":' + b"9" * 5000 + b"}",
        b'{"table":"a.b"',
    ],
)
def test_body_that_is_not_a_json_object_is_malformed(body: bytes) -> None:
    assert refusal(body) is RefusalReason.MALFORMED


@pytest.mark.parametrize(
    "document",
    [
        {"table": 1},
        {"table": ""},
        {"table": "a..b"},
        {"table": "a.b\u0000"},
        {"table": "a.\udc00"},
        {"tables": "a.b"},
        {"location": "http://nessie/metadata/1.metadata.json"},
        {"Records": {}},
        {
            "Records": [
                {
                    "eventName": "ObjectCreated:Put",
                    "s3": {"bucket": {"name": "b"}, "object": {"key": "\ud800"}},
                }
            ]
        },
        {"Records": [{"eventName": "ObjectCreated:Put"}]},
        {"Records": [{"eventName": 1, "s3": {"bucket": {"name": "b"}, "object": {"key": "k"}}}]},
        {
            "source": "aws.glue",
            "detail-type": "Glue Data Catalog Table State Change",
            "detail": {"databaseName": "raw"},
        },
        {
            "specversion": "1.0",
            "type": "updateTable",
            "tabular-id": "x",
            "name": "t",
            "namespace": "a\u001f\u0000",
        },
        {
            "specversion": "1.0",
            "type": "org.apache.polaris.after_update_table",
            "data": {"event_type": "AFTER_UPDATE_TABLE"},
        },
        {"type": "CONTENT_STORED", "contentKey": {"elements": []}},
        {"report-type": "commit-report", "table-name": ["raw"]},
        {"kind": "SparkApplication", "metadata": {}},
        {"Type": "Notification", "Message": "no"},
    ],
    ids=str,
)
def test_event_that_differs_from_the_form_of_its_source_is_malformed(document: object) -> None:
    assert refusal(json.dumps(document).encode()) is RefusalReason.MALFORMED


@pytest.mark.parametrize(
    "document",
    [{}, {"hello": 1}, {"source": "aws.ec2", "detail-type": "x"}, {"specversion": "1.0", "data": 1}],
)
def test_event_of_an_unknown_kind_is_refused(document: object) -> None:
    assert refusal(json.dumps(document).encode()) is RefusalReason.UNKNOWN_KIND


def test_refusal_does_not_quote_the_event() -> None:
    for body in (b'{"table":{"secret-value":1}}', b'{"Records":[{"secret-value":"secret-value"}]}'):
        with pytest.raises(EventRefused) as caught:
            parse_hints(body)
        assert "secret" not in str(caught.value)


def test_refused_event_is_not_kept_in_memory() -> None:
    def refusal_of(body: bytes) -> weakref.ref[EventRefused]:
        try:
            parse_hints(body)
        except EventRefused as refused:
            outcome = refused
        return weakref.ref(outcome)

    bodies = [
        b'{"table":"a\\u0000b.c"}',
        b'{"type":"\\u0001","specversion":"1.0","tabular-id":"x"}',
        b"{}",
        b"[",
    ]
    refused = [refusal_of(body) for body in bodies]
    gc.collect()
    assert [ref() for ref in refused] == [None] * len(bodies)


def test_equivalent_addresses_are_the_same_location() -> None:
    location = ObjectLocation("s3", "lake", "a/b.metadata.json")
    found = {parse_location(f"{scheme}://lake/a/b.metadata.json") for scheme in ("s3", "s3a", "S3")}
    assert found == {location}
    assert (
        parse_location("/data/t/m.json")
        == parse_location("file:///data/t/m.json")
        == ObjectLocation("file", "", "/data/t/m.json")
    )
    assert parse_location("http://nessie/iceberg/v1/trees/main/1.metadata.json") is None
