"""Heads from a Hive Metastore, over Thrift."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hive_metastore.ttypes import MetaException

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.tables.table_id import TableId
from tests.platforms.fake_metastore import NOT_IN_HIVE_2, NOT_IN_HIVE_4, Metastore, listening, serving
from trigger.heads.head_source import open_head_source
from trigger.heads.hive import HiveHeads

ORDERS, MISSING = TableId.parse("raw.orders"), TableId.parse("raw.nothing")
DEAD = "thrift://127.0.0.1:9"


@pytest.fixture(params=[NOT_IN_HIVE_2, NOT_IN_HIVE_4], ids=["hive-2", "hive-4"])
def hive(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    server = Metastore(request.param)
    server.add("raw", "orders", "s3://b/m1.json")
    with serving(server):
        yield server


@pytest.fixture
def hive4() -> Iterator[Metastore]:
    server = Metastore()
    server.add("raw", "orders", "s3://b/m1.json")
    with serving(server):
        yield server


def heads_of(*uris: str, **properties: str) -> HiveHeads:
    found = open_head_source({"type": "hive", "uri": ",".join(uris), **properties})
    assert isinstance(found, HiveHeads)
    return found


def test_head_is_a_parameter_of_the_table(hive: Metastore) -> None:
    heads = heads_of(hive.uri)
    for _ in range(2):
        found = heads.load_heads([ORDERS, MISSING])
        assert found[ORDERS] == "s3://b/m1.json"
        assert "no changelog raw.nothing in the Hive Metastore" in str(found[MISSING])


def test_missing_database_does_not_hide_others(hive4: Metastore) -> None:
    other_database, nested = TableId.parse("nowhere.orders"), TableId.parse("raw.deep.orders")
    found = heads_of(hive4.uri).load_heads([other_database, nested, ORDERS])
    assert found[ORDERS] == "s3://b/m1.json"
    assert "there is no changelog" in str(found[other_database])
    assert "there is no changelog" in str(found[nested])


def test_failing_database_does_not_hide_others(hive4: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    original = hive4.get_table_objects_by_name

    def fail(dbname: str, tbl_names: list[str]) -> list[Any]:
        return original(dbname, tbl_names) if dbname == "raw" else 1 / 0  # type: ignore[return-value]

    monkeypatch.setattr(hive4, "get_table_objects_by_name", fail)
    broken = TableId.parse("broken.orders")
    found = heads_of(hive4.uri).load_heads([broken, ORDERS])
    assert found[ORDERS] == "s3://b/m1.json"
    assert isinstance(found[broken], Transient)


def test_many_tables_need_few_calls(hive4: Metastore) -> None:
    for at in range(250):
        hive4.add("raw", f"t{at}", f"m{at}")
    hive4.columns = 200
    found = heads_of(hive4.uri).load_heads([TableId.parse(f"raw.t{at}") for at in range(250)])
    assert list(found.values()) == [f"m{at}" for at in range(250)]
    assert len(hive4.calls) == 3


def test_table_names_are_case_insensitive(hive4: Metastore) -> None:
    table = TableId.parse("Raw.Orders")
    assert heads_of(hive4.uri).load_heads([table]) == {table: "s3://b/m1.json"}


def test_table_that_is_not_iceberg_is_invalid_and_not_listed(hive: Metastore) -> None:
    hive.tables["raw", "csv"] = {"classification": "csv"}
    hive.tables["raw", "view"] = {"table_type": "iceberg-view", "metadata_location": "v1"}
    hive.tables["raw", "bare"] = {"table_type": "ICEBERG"}
    heads = heads_of(hive.uri)
    for name in ("csv", "view", "bare"):
        table = TableId.parse(f"raw.{name}")
        head = heads.load_heads([table])[table]
        assert isinstance(head, Invalid)
        assert "not an Iceberg table" in str(head)
    assert heads.list_tables("raw") == ("orders",)
    assert heads.list_tables("nowhere") == ()


def test_skewed_table_does_not_hide_other_tables(hive: Metastore) -> None:
    hive.add_skewed("raw", "clicks")
    heads = heads_of(hive.uri)
    assert heads.load_heads([ORDERS]) == {ORDERS: "s3://b/m1.json"}
    assert heads.list_tables("raw") == ("orders",)


def test_refusal_is_invalid_and_other_failures_are_transient(hive4: Metastore) -> None:
    heads = heads_of(hive4.uri)
    hive4.error = MetaException("Got exception: AccessControlException Permission denied: user=me\n\tat x.y")
    refused = heads.load_heads([ORDERS])[ORDERS]
    assert isinstance(refused, Invalid)
    assert "\n" not in str(refused)
    hive4.error = MetaException("the database is down")
    assert isinstance(heads.load_heads([ORDERS])[ORDERS], Transient)
    with pytest.raises(Transient, match="the database is down"):
        heads.list_tables("raw")


def test_next_metastore_is_used_if_one_is_silent(hive4: Metastore) -> None:
    heads = heads_of(DEAD, hive4.uri)
    assert heads.load_heads([ORDERS])[ORDERS] == "s3://b/m1.json"
    assert heads._addresses[0] == ("127.0.0.1", hive4.port), (
        "the metastore that responded is tried first from now on"
    )
    with pytest.raises(Transient, match=r"did not respond.*127.0.0.1:9"):
        heads_of(DEAD, DEAD).load_heads([ORDERS])


def test_user_is_sent_before_other_calls(hive4: Metastore) -> None:
    heads_of(hive4.uri, ugi="etl:lake").load_heads([ORDERS])
    assert hive4.users == [("etl", ["lake"])]


def test_catalog_type_is_derived_from_the_uri(hive4: Metastore) -> None:
    assert open_head_source({"uri": hive4.uri}).list_tables("raw") == ("orders",)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"uri": "thrift://host"}, "thrift://host:9083"),
        ({"uri": "thrift://host:9083,other:9083"}, "thrift://host:9083"),
        ({"uri": "thrift://host:9083", "ugi": "me"}, "user:group"),
        (
            {"uri": "thrift://host:9083", "hive.kerberos-authentication": "True"},
            "hive.kerberos-authentication",
        ),
    ],
)
def test_unsupported_catalog_is_refused_when_opened(given: dict[str, str], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        open_head_source({"type": "hive", **given})


def _trickle(stream: socket.socket) -> None:
    with suppress(OSError), stream:
        stream.sendall(struct.pack(">IIi", 0x80010002, 0, 0))
        while True:  # fields of an answer, without end
            stream.sendall(struct.pack(">bhb", 3, 1, 7))
            time.sleep(0.01)


def _flood(stream: socket.socket) -> None:
    with suppress(OSError), stream:
        stream.sendall(struct.pack(">IIi", 0x80010002, 0, 0) + struct.pack(">bhbi", 15, 0, 11, 1 << 30))
        while True:
            stream.sendall(struct.pack(">i", 1 << 10) + bytes(1 << 10))


def _nest(stream: socket.socket) -> None:
    with suppress(OSError), stream:
        stream.sendall(struct.pack(">IIi", 0x80010002, 0, 0) + struct.pack(">bh", 12, 0) * 100_000)
        time.sleep(1)


def _send(answer: bytes) -> Callable[[socket.socket], None]:
    def send(stream: socket.socket) -> None:
        with suppress(OSError), stream:
            stream.recv(1 << 16)
            stream.sendall(answer)

    return send


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_trickle, "no complete response within"),
        (_flood, "larger than 1 MB"),
        (_nest, "at depth"),
        (_send(b""), "closed"),
        (_send(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "does not use Thrift"),
        (_send(struct.pack(">IIi", 0x80010002, 0, 0) + b"\0"), "unexpected type of response"),
        (_send(struct.pack(">IiiB", 0x80010002, -5, 0, 0)), "or not Thrift"),
    ],
)
def test_invalid_answer_is_transient_and_bounded(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[socket.socket], None], words: str
) -> None:
    monkeypatch.setattr("trigger.heads.thrift._TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr("trigger.heads.thrift._MAX_BYTES", 1 << 20)
    with listening(answer) as port:
        began = time.monotonic()
        with pytest.raises(Transient, match=words):
            heads_of(f"thrift://127.0.0.1:{port}").load_heads([ORDERS])
        assert time.monotonic() - began < 3
