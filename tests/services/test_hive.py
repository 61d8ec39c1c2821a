"""Changelogs and mirrors in real Hive Metastores: merges, head polling, and rejection of stale commits."""

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
from icemirror.step_results import Merged
from icemirror.tables.table_id import TableId
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pyiceberg_private.open_catalog import open_catalog
from tests.oracle.schedules import Schedule
from tests.oracle.world import World
from tests.services.hive_metastore import HiveMetastore
from tests.services.lakes import Lake, documented, mirrored_world
from tests.services.merge_schedule import merge_schedule
from tests.services.merge_schema_changes import merge_schema_changes
from trigger.heads.head_source import open_head_source

ROW = pa.table({"id": pa.array([1], pa.int64())})
hive_3 = pytest.mark.parametrize("hive", ["3.1.3"], indirect=True)
hive_4 = pytest.mark.parametrize("hive", ["4.0.1"], indirect=True)
SHORT_WAITS = {"lock-check-max-wait-time": "0.1", "lock-check-retries": "100"}


@pytest.fixture
def catalog(hive: HiveMetastore, tmp_path: Path) -> dict[str, str]:
    """Return catalog properties that list an unreachable metastore before the real one."""
    uri = f"thrift://127.0.0.1:9,{hive.uri}"
    return {**documented("Hive Metastore"), "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}


def open_hive(properties: dict[str, str]) -> HiveCatalog:
    found = open_catalog("icemirror", properties)
    assert isinstance(found, HiveCatalog)
    return found


@pytest.fixture
def table(catalog: dict[str, str]) -> Table:
    """Return a table with one row and one snapshot."""
    lake = Lake(catalog)
    open_hive(catalog).create_namespace(lake.namespace)
    table = open_hive(catalog).create_table((lake.namespace, "t"), ROW.schema)
    table.append(ROW)
    return table


def commit_property(table: Table) -> None:
    """Commit a property on condition that the head is the one that `table` has loaded."""
    head = table.current_snapshot()
    assert head is not None
    fence = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": head.snapshot_id})
    table.catalog.commit_table(table, (fence,), (SetPropertiesUpdate(updates={"mine": "yes"}),))


@hive_4
def test_schedule_is_merged_and_its_head_is_polled(tmp_path: Path, catalog: dict[str, str]) -> None:
    merge_schedule(tmp_path, Lake(catalog), "composite", batches=2)


def test_schema_changes_are_applied(tmp_path: Path, catalog: dict[str, str]) -> None:
    merge_schema_changes(tmp_path, Lake(catalog))


def test_commit_on_a_stale_head_is_rejected(table: Table, catalog: dict[str, str]) -> None:
    stale = open_hive(catalog).load_table(table.name())
    table.append(ROW)
    with pytest.raises(CommitFailedException, match="has changed"):
        commit_property(stale)


@hive_3  # Hive 4 on Derby deadlocks on several concurrent lock requests
def test_concurrent_writers_lose_no_rows(table: Table, catalog: dict[str, str]) -> None:
    def append(_: int) -> None:
        writer = open_hive({**catalog, **SHORT_WAITS})
        for _ in range(3):
            writer.load_table(table.name()).append(ROW)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(append, range(3)))
    assert table.refresh().scan().count() == 10


def test_commit_waits_for_a_lock_and_gives_up(table: Table, catalog: dict[str, str]) -> None:
    raw = HiveCatalog("raw", **{**catalog, "uri": catalog["uri"].split(",")[1]})
    with raw._client as client:
        lock = client.lock(raw._create_lock_request(*table.name()))
        waiting = open_hive({**catalog, **SHORT_WAITS, "lock-check-retries": "2"}).load_table(table.name())
        with pytest.raises(CommitFailedException, match="Failed to acquire lock"):
            commit_property(waiting)
        client.unlock(UnlockRequest(lockid=lock.lockid))
    commit_property(waiting)


def act_during_commit(
    monkeypatch: pytest.MonkeyPatch, table: Table, act: Callable[[HiveCatalog], None]
) -> None:
    """Call `act` once, after the table's next commit has checked its fence and before it takes effect."""
    catalog = table.catalog
    assert isinstance(catalog, HiveCatalog)
    write = catalog._write_metadata

    def write_metadata(*given: Any, **named: Any) -> None:
        write(*given, **named)
        monkeypatch.undo()
        act(catalog)

    monkeypatch.setattr(catalog, "_write_metadata", write_metadata)


def test_commit_with_a_revoked_lock_is_rejected(
    monkeypatch: pytest.MonkeyPatch, table: Table, catalog: dict[str, str]
) -> None:
    concurrent = open_hive(catalog).load_table(table.name())

    def revoke_lock(_: HiveCatalog) -> None:
        with open_hive(catalog)._client as client:
            client.unlock(UnlockRequest(lockid=locks.pop()))
        concurrent.append(ROW)

    locks: list[int] = []
    lock = Client.recv_lock
    monkeypatch.setattr(Client, "recv_lock", lambda self: _record_lock(locks, lock(self)))
    act_during_commit(monkeypatch, table, revoke_lock)
    with pytest.raises(CommitFailedException, match="revoked the lock"):
        commit_property(table)
    assert table.refresh().scan().count() == 2


def _record_lock(locks: list[int], response: Any) -> Any:
    locks.append(response.lockid)
    return response


@hive_4
def test_commit_does_not_overwrite_a_writer_without_a_lock(
    monkeypatch: pytest.MonkeyPatch, table: Table, catalog: dict[str, str]
) -> None:
    """Iceberg Java writes this way with `engine.hive.lock-enabled=false`, if Hive compares the location itself."""

    def alter_without_lock(_: HiveCatalog) -> None:
        with open_hive(catalog)._client as client:
            altered = client.get_table(*table.name())
            altered.parameters["metadata_location"] += "?"
            Client.alter_table_with_environment_context(
                client, *table.name(), altered, EnvironmentContext(properties={})
            )

    act_during_commit(monkeypatch, table, alter_without_lock)
    with pytest.raises(CommitFailedException, match="another writer committed first"):
        commit_property(table)


@hive_4
@pytest.mark.parametrize("landed", [True, False], ids=["landed", "lost"])
def test_commit_with_a_lost_response_is_detected(
    tmp_path: Path, catalog: dict[str, str], monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    # No lock retries: the interrupted commit must have released its lock.
    world = mirrored_world(tmp_path, Lake({**catalog, "lock-check-retries": "1"}), Schedule(1, "int"))
    world.oracle.commit_next()
    assert isinstance(world.pipeline.advance(world.table), Merged)
    world.oracle.commit_next()
    alter = Client.alter_table_with_environment_context

    def lose_response(client: Client, *given: Any) -> None:
        monkeypatch.undo()
        if landed:
            alter(client, *given)
        client._iprot.trans.close()
        raise TTransportException(TTransportException.END_OF_FILE, "TSocket read 0 bytes")

    monkeypatch.setattr(Client, "alter_table_with_environment_context", lose_response)
    if landed:
        assert isinstance(world.pipeline.advance(world.table), Merged)
    else:
        with pytest.raises(CommitUnknown, match="may still be committed"):
            world.pipeline.advance(world.table)
        assert isinstance(world.pipeline.advance(world.table), Merged)
    assert world.oracle.verdict(world.mirror).equal
    world.oracle.commit_next()
    assert isinstance(world.pipeline.advance(world.table), Merged)
    assert world.oracle.verdict(world.mirror).equal


def test_unreachable_metastore_is_transient_and_a_table_of_another_format_is_invalid(
    tmp_path: Path, catalog: dict[str, str], table: Table
) -> None:
    namespace, name = table.name()
    with open_hive(catalog)._client as client:
        found = client.get_table(namespace, name)
        found.tableName, found.parameters = "csv", {"EXTERNAL": "TRUE"}
        client.create_table(found)
    ids = [TableId((namespace,), table_name) for table_name in ("t", "csv", "none")]
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


@hive_4  # one Spark run is enough
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
    opened_catalog = open_hive(catalog)
    opened_catalog.create_namespace(namespace)
    world = World(opened_catalog, namespace, Schedule(3, "int"), use_duckdb=False)
    world.commit_many(2)
    watch = [sys.executable, "-m", "icemirror", "watch", "--until-idle", "-c", str(path)]
    done = subprocess.run(watch, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert world.verdict(opened_catalog.load_table((namespace, "world"))).equal
    world.close()
