"""Changelogs and mirrors in real Hive Metastores: merged, noticed, and never overwritten by who came too late."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import EnvironmentContext, UnlockRequest
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from thrift.transport.TTransport import TTransportException

from icemirror.config_file.load import load_settings
from icemirror.errors import CommitUnknown, Invalid, Transient
from icemirror.result import Merged
from icemirror.tables.table_id import TableId
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pyiceberg_private.open_catalog import open_catalog
from tests.oracle.schedules import Schedule
from tests.oracle.world import World
from tests.services.hive_metastore import HiveMetastore
from tests.services.lakes import Lake, documented, mirrored_world
from tests.services.test_lakes import merge_schedule
from tests.services.test_schema_changes import follow_columns
from trigger.heads.head_source import open_head_source

ROW = pa.table({"id": pa.array([1], pa.int64())})
hive_3 = pytest.mark.parametrize("hive", ["3.1.3"], indirect=True)
hive_4 = pytest.mark.parametrize("hive", ["4.0.1"], indirect=True)
QUICK = {"lock-check-max-wait-time": "0.1", "lock-check-retries": "100"}


@pytest.fixture
def catalog(hive: HiveMetastore, tmp_path: Path) -> dict[str, str]:
    """A metastore that does not answer stands before the one that does."""
    uri = f"thrift://127.0.0.1:9,{hive.uri}"
    return {**documented("Hive Metastore"), "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}


def opened(properties: dict[str, str]) -> HiveCatalog:
    found = open_catalog("icemirror", properties)
    assert isinstance(found, HiveCatalog)
    return found


@pytest.fixture
def table(catalog: dict[str, str]) -> Table:
    """A table of one row, and of one snapshot."""
    made = Lake(catalog)
    opened(catalog).create_namespace(made.namespace)
    table = opened(catalog).create_table((made.namespace, "t"), ROW.schema)
    table.append(ROW)
    return table


def claim(table: Table) -> None:
    """A commit on the snapshot that this object knows."""
    head = table.current_snapshot()
    assert head is not None
    fence = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": head.snapshot_id})
    table.catalog.commit_table(table, (fence,), (SetPropertiesUpdate(updates={"mine": "yes"}),))


@hive_4
def test_a_schedule_is_merged_and_its_head_is_seen(tmp_path: Path, catalog: dict[str, str]) -> None:
    merge_schedule(tmp_path, Lake(catalog), "composite", batches=2)


def test_columns_are_followed(tmp_path: Path, catalog: dict[str, str]) -> None:
    follow_columns(tmp_path, Lake(catalog))


def test_a_commit_on_a_head_that_moved_is_refused(table: Table, catalog: dict[str, str]) -> None:
    late = opened(catalog).load_table(table.name())
    table.append(ROW)
    with pytest.raises(CommitFailedException, match="has changed"):
        claim(late)


@hive_3  # Hive 4 deadlocks with its Derby when it is asked for several locks at once
def test_writers_that_come_at_once_lose_nothing(table: Table, catalog: dict[str, str]) -> None:
    def append(_: int) -> None:
        mine = opened({**catalog, **QUICK})
        for _ in range(3):
            mine.load_table(table.name()).append(ROW)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(append, range(3)))
    assert table.refresh().scan().count() == 10


def test_a_commit_waits_for_the_lock_of_another_and_gives_up(table: Table, catalog: dict[str, str]) -> None:
    raw = HiveCatalog("raw", **{**catalog, "uri": catalog["uri"].split(",")[1]})
    with raw._client as client:
        lock = client.lock(raw._create_lock_request(*table.name()))
        impatient = opened({**catalog, **QUICK, "lock-check-retries": "2"}).load_table(table.name())
        with pytest.raises(CommitFailedException, match="Failed to acquire lock"):
            claim(impatient)
        client.unlock(UnlockRequest(lockid=lock.lockid))
    claim(impatient)


def meanwhile(monkeypatch: pytest.MonkeyPatch, table: Table, act: Callable[[HiveCatalog], None]) -> None:
    """`act` once, after the table's next commit has checked its fence, and before it lands."""
    catalog = table.catalog
    assert isinstance(catalog, HiveCatalog)
    write = catalog._write_metadata

    def write_metadata(*given: Any, **named: Any) -> None:
        write(*given, **named)
        monkeypatch.undo()
        act(catalog)

    monkeypatch.setattr(catalog, "_write_metadata", write_metadata)


def test_a_commit_whose_lock_was_taken_away_is_refused(
    monkeypatch: pytest.MonkeyPatch, table: Table, catalog: dict[str, str]
) -> None:
    other = opened(catalog).load_table(table.name())

    def expire(mine: HiveCatalog) -> None:
        with opened(catalog)._client as client:
            client.unlock(UnlockRequest(lockid=locks.pop()))
        other.append(ROW)

    locks: list[int] = []
    lock = Client.recv_lock
    monkeypatch.setattr(Client, "recv_lock", lambda self: _kept(locks, lock(self)))
    meanwhile(monkeypatch, table, expire)
    with pytest.raises(CommitFailedException, match="revoked the lock"):
        claim(table)
    assert table.refresh().scan().count() == 2


def _kept(locks: list[int], response: Any) -> Any:
    locks.append(response.lockid)
    return response


@hive_4
def test_a_writer_that_takes_no_lock_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, table: Table, catalog: dict[str, str]
) -> None:
    """As Iceberg Java with `engine.hive.lock-enabled=false`, which wants a Hive that compares by itself."""

    def alter(mine: HiveCatalog) -> None:
        with opened(catalog)._client as client:
            moved = client.get_table(*table.name())
            moved.parameters["metadata_location"] += "?"
            Client.alter_table_with_environment_context(
                client, *table.name(), moved, EnvironmentContext(properties={})
            )

    meanwhile(monkeypatch, table, alter)
    with pytest.raises(CommitFailedException, match="another writer committed first"):
        claim(table)


@hive_4
@pytest.mark.parametrize("landed", [True, False], ids=["landed", "lost"])
def test_a_commit_whose_answer_is_lost_is_looked_for(
    tmp_path: Path, catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    # Patience for no lock: the one of the commit that broke must have been given back.
    lab = mirrored_world(tmp_path, Lake({**catalog, "lock-check-retries": "1"}), Schedule(1, "int"))
    lab.world.commit_next()
    assert isinstance(lab.pipeline.advance(lab.table), Merged)
    lab.world.commit_next()
    alter = Client.alter_table_with_environment_context

    def break_off(client: Client, *given: Any) -> None:
        monkeypatch.undo()
        if landed:
            alter(client, *given)
        client._iprot.trans.close()
        raise TTransportException(TTransportException.END_OF_FILE, "TSocket read 0 bytes")

    monkeypatch.setattr(Client, "alter_table_with_environment_context", break_off)
    if landed:
        assert isinstance(lab.pipeline.advance(lab.table), Merged)
    else:
        with pytest.raises(CommitUnknown, match="may still be committed"):
            lab.pipeline.advance(lab.table)
        assert isinstance(lab.pipeline.advance(lab.table), Merged)
    assert lab.world.verdict(lab.mirror).equal
    lab.world.commit_next()
    assert isinstance(lab.pipeline.advance(lab.table), Merged)
    assert lab.world.verdict(lab.mirror).equal


def test_no_metastore_is_transient_and_another_kind_of_table_needs_a_person(
    tmp_path: Path, catalog: dict[str, str], table: Table
) -> None:
    namespace, name = table.name()
    with opened(catalog)._client as client:
        found = client.get_table(namespace, name)
        found.tableName, found.parameters = "csv", {"EXTERNAL": "TRUE"}
        client.create_table(found)
    ids = [TableId((namespace,), one) for one in ("t", "csv", "none")]
    head, csv, none = open_head_source(catalog).load_heads(ids).values()
    assert head == table.metadata_location
    assert "not an Iceberg table" in str(csv)
    assert "there is no changelog" in str(none)
    assert open_head_source(catalog).list_tables(namespace) == ("t",)
    path = tmp_path / "icemirror.yaml"
    tables = [{"namespace": namespace, "changelog_table": "csv", "mirror_table": "m"}]
    path.write_text(yaml.safe_dump({"iceberg": {"catalog": catalog}, "tables": tables}))
    settings = load_settings(path, os.environ)
    with pytest.raises(Invalid, match="not an Iceberg table"):
        Catalogs(settings).load_changelog(settings.tables[0])
    path.write_text(path.read_text().replace(catalog["uri"], "thrift://127.0.0.1:9"))
    settings = load_settings(path, os.environ)
    with pytest.raises(Transient, match="cannot be reached"):
        Catalogs(settings).load_changelog(settings.tables[0])


@hive_4  # one Spark is enough
def test_watch_discovers_a_changelog_and_merges_its_commits(tmp_path: Path, catalog: dict[str, str]) -> None:
    namespace = Lake(catalog).namespace
    path = tmp_path / "icemirror.yaml"
    document = {
        "iceberg": {"catalog": catalog},
        "discover": [{"namespace": namespace, "match": "*_changelog", "mirror_namespace": namespace}],
        "trigger": {"state": {"type": "sqlite", "path": str(tmp_path / "state.db")}, "quiet_period": "0s"},
        "job": {"linger": "0s"},
    }
    path.write_text(yaml.safe_dump(document))
    mine = opened(catalog)
    mine.create_namespace(namespace)
    world = World(mine, namespace, Schedule(3, "int"), use_duckdb=False)
    world.commit_many(2)
    watch = [sys.executable, "-m", "icemirror", "watch", "--until-idle", "-c", str(path)]
    done = subprocess.run(watch, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert world.verdict(mine.load_table((namespace, "world"))).equal
    world.close()
