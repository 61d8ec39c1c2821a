"""A Hive catalog uses the first metastore that responds, with calls that it supports."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import LockResponse, LockState, MetaException, NoSuchLockException
from pyiceberg.catalog.hive import HiveCatalog, SchemaToHiveConverter, _HiveClient
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import SetPropertiesUpdate
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType, TimeType, UUIDType

from icemirror.errors import Invalid, Transient
from icemirror.telemetry.logs import bind
from spark_job.iceberg.create import create_mirror
from spark_job.pyiceberg_private.open_catalog import open_catalog
from spark_job.storage.translate_errors import (
    catalog_response_errors,
    translate_errors,
    translate_table_errors,
)
from tests.lab.lab import ID_AND_NAME, Lab
from tests.platforms.fake_metastore import NOT_IN_HIVE_2, NOT_IN_HIVE_4, Metastore, serving

DEAD = "thrift://127.0.0.1:9"
REASON = "The transaction for alter partition did not commit successfully"


class FailingMetastore(Metastore):
    """Its database is unreachable for a short time."""

    def get_table(self, dbname: str, tbl_name: str) -> NoReturn:
        raise MetaException(REASON)

    def create_database(self, database: Any) -> NoReturn:
        raise MetaException(REASON)


class LockRevokingMetastore(Metastore):
    """Grants a lock, then revokes it as expired."""

    def lock(self, rqst: Any) -> LockResponse:
        return LockResponse(1, LockState.ACQUIRED)

    def check_lock(self, rqst: Any) -> NoReturn:
        raise NoSuchLockException("No such lock lockid:1")

    def unlock(self, rqst: Any) -> NoReturn:
        raise NoSuchLockException("No such lock lockid:1")

    def alter_table_with_environment_context(self, *_: object) -> None:
        pytest.fail("altered without a lock")


@pytest.fixture(params=[NOT_IN_HIVE_2, NOT_IN_HIVE_4], ids=["hive-2", "hive-4"])
def hive(request: pytest.FixtureRequest) -> Iterator[Metastore]:
    server = Metastore(request.param)
    server.add("raw", "orders", "s3://b/m1.json")
    with serving(server):
        yield server


def open_hive(uri: str, **properties: str) -> HiveCatalog:
    found = open_catalog("icemirror", {"type": "hive", "uri": uri, **properties})
    assert isinstance(found, HiveCatalog)
    return found


def test_tables_are_found_in_old_and_new_metastores(hive: Metastore) -> None:
    catalog = open_hive(hive.uri)
    with catalog._client as client:
        assert client.get_table("raw", "orders").parameters["metadata_location"] == "s3://b/m1.json"
    assert catalog.list_tables("raw") == [("raw", "orders")]
    assert not catalog.table_exists("raw.nothing")


def test_next_metastore_is_used_if_one_is_unreachable(hive: Metastore) -> None:
    catalog = open_hive(f"{DEAD}, {hive.uri}")
    for _ in range(2):
        assert catalog.list_tables("raw") == [("raw", "orders")]
    with pytest.raises(Transient, match="cannot be reached"), translate_errors("raw.orders"):
        open_hive(f"{DEAD},{DEAD}").load_table("raw.orders")


def test_user_and_group_are_sent(hive: Metastore) -> None:
    open_hive(hive.uri, ugi="etl:lake").list_tables("raw")
    assert hive.users == [("etl", ["lake"])]


def test_metastore_connection_has_a_timeout(hive: Metastore) -> None:
    transport = open_hive(hive.uri)._client._metastores[0]._transport  # type: ignore[attr-defined]
    assert transport._TBufferedTransport__trans._timeout == 120


def test_table_that_is_not_iceberg_is_invalid(hive: Metastore) -> None:
    hive.tables["raw", "csv"] = {}
    with pytest.raises(Invalid, match="not an Iceberg table"), translate_errors("raw.csv"):
        open_hive(hive.uri).load_table("raw.csv")


def test_temporary_load_failure_is_transient() -> None:
    with (
        serving(FailingMetastore()) as server,
        pytest.raises(Transient, match=REASON),
        translate_errors(),
        catalog_response_errors("raw.orders"),
    ):
        open_hive(server.uri).load_table("raw.orders")


def test_temporary_create_failure_is_transient(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    with serving(FailingMetastore()) as server:
        catalog = open_hive(server.uri, warehouse=f"file://{tmp_path}")
        with (
            pytest.raises(Transient, match=REASON),
            translate_table_errors("lab.world"),
            bind(batch="1"),
        ):  # like during the merge of a slice
            create_mirror(catalog, lab.table, lab.changelog, ID_AND_NAME, {1: 1, 2: 2})


def test_skewed_table_does_not_hide_other_tables(hive: Metastore) -> None:
    hive.add_skewed("raw", "clicks")
    assert open_hive(hive.uri).list_tables("raw") == [("raw", "orders")]


def test_commit_with_a_revoked_lock_fails_definitely(tmp_path: Path) -> None:
    server = LockRevokingMetastore()
    server.add("raw", "orders", Lab.make(tmp_path).changelog.metadata_location)
    with serving(server):
        catalog = open_hive(server.uri)
        table = catalog.load_table("raw.orders")
        with pytest.raises(CommitFailedException, match="revoked the lock"):
            catalog.commit_table(table, (), (SetPropertiesUpdate(updates={"a": "b"}),))


def test_every_column_type_has_a_hive_type(hive: Metastore) -> None:
    open_hive(hive.uri)
    known = (TimestampNanoType(), TimestamptzNanoType(), TimeType(), UUIDType())
    names = [SchemaToHiveConverter(False).primitive(kind) for kind in known]
    assert names == ["timestamp", "timestamp with local time zone", "string", "string"]


def test_pyiceberg_client_has_the_private_members_in_use() -> None:
    assert list(signature(_HiveClient.__init__).parameters)[1:] == [
        "uri",
        "ugi",
        "kerberos_auth",
        "kerberos_service_name",
    ]
    assert {"_init_thrift_transport", "_client", "__enter__", "__exit__"} <= vars(_HiveClient).keys()
    used = HiveCatalog.commit_table.__code__.co_names
    assert {"lock", "unlock", "alter_table_with_environment_context", "_client"} <= set(used)
    assert list(signature(Client.alter_table_with_environment_context).parameters)[1:] == [
        "dbname",
        "tbl_name",
        "new_tbl",
        "environment_context",
    ]
