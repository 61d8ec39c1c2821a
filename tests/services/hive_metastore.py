"""An Apache Hive Metastore: pointers in a separate Derby database that also has the lock tables."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.provision import maven
from tests.services.processes import HOST, DidNotStart, free_port, java, listens, running

_SERVERS = {
    "3.1.3": "org.apache.hive:hive-standalone-metastore:3.1.3",
    "4.0.1": "org.apache.hive:hive-standalone-metastore-server:4.0.1",
}
VERSIONS = tuple(_SERVERS)
_DEPENDENCIES = (
    "org.apache.hadoop:hadoop-common:3.3.6",
    "org.apache.hadoop:hadoop-hdfs:3.3.6",
    "org.apache.derby:derby:10.14.2.0",
    "org.apache.derby:derbytools:10.14.2.0",
)
# The tables that the metastore needs for locks. It creates its other tables automatically, but not these.
_LOCK_TABLES = """
CREATE TABLE NEXT_LOCK_ID (NL_NEXT bigint NOT NULL);
INSERT INTO NEXT_LOCK_ID VALUES (1);
CREATE TABLE HIVE_LOCKS (
  HL_LOCK_EXT_ID bigint NOT NULL, HL_LOCK_INT_ID bigint NOT NULL, HL_TXNID bigint NOT NULL,
  HL_DB varchar(128) NOT NULL, HL_TABLE varchar(256), HL_PARTITION varchar(767),
  HL_LOCK_STATE char(1) NOT NULL, HL_LOCK_TYPE char(1) NOT NULL,
  HL_LAST_HEARTBEAT bigint NOT NULL, HL_HEARTBEAT_COUNT integer, HL_ACQUIRED_AT bigint,
  HL_USER varchar(128) NOT NULL, HL_HOST varchar(128) NOT NULL, HL_AGENT_INFO varchar(128),
  HL_BLOCKEDBY_EXT_ID bigint, HL_BLOCKEDBY_INT_ID bigint,
  PRIMARY KEY (HL_LOCK_EXT_ID, HL_LOCK_INT_ID));
CREATE TABLE AUX_TABLE (MT_KEY1 varchar(128) NOT NULL, MT_KEY2 bigint NOT NULL, MT_COMMENT varchar(255),
  PRIMARY KEY (MT_KEY1, MT_KEY2));
CREATE TABLE TXNS (TXN_ID bigint PRIMARY KEY, TXN_STATE char(1), TXN_STARTED bigint, TXN_LAST_HEARTBEAT bigint,
  TXN_USER varchar(128), TXN_HOST varchar(128), TXN_TYPE integer);
CREATE TABLE TXN_COMPONENTS (TC_TXNID bigint NOT NULL, TC_DATABASE varchar(128) NOT NULL, TC_TABLE varchar(256),
  TC_PARTITION varchar(767), TC_OPERATION_TYPE char(1) NOT NULL, TC_WRITEID bigint);
"""
_TASKS = "org.apache.hadoop.hive.metastore.events.EventCleanerTask"
_HOUSEKEEPER = "org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService"
_EXPRESSIONS = "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy"


@dataclass(frozen=True)
class HiveMetastore:
    """A running metastore."""

    port: int

    @property
    def uri(self) -> str:
        return f"thrift://{HOST}:{self.port}"


def hive_jars(version: str) -> Path:
    """Return a folder with the jars of this version."""
    return maven.jars(f"hive-metastore-{version}", (_SERVERS[version], *_DEPENDENCIES))


def hive_metastore(version: str) -> Callable[[Path], AbstractContextManager[HiveMetastore]]:
    """Return a context manager that runs this version."""

    @contextmanager
    def run(folder: Path) -> Iterator[HiveMetastore]:
        jars = hive_jars(version)
        settings = {
            "javax.jdo.option.ConnectionURL": "jdbc:derby:metastore",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "metastore.schema.verification": "false",
            "metastore.warehouse.dir": (folder / "warehouse").as_uri(),
            "metastore.thrift.bind.host": HOST,
            # The defaults name classes of Hive itself, which is not installed.
            "metastore.expression.proxy": _EXPRESSIONS,
            "metastore.task.threads.always": _TASKS,
            "metastore.task.threads.remote": _HOUSEKEEPER,
        }
        xml = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in settings.items()
        )
        (folder / "metastore-site.xml").write_text(f"<configuration>{xml}</configuration>")
        derby = (f"-Dderby.system.home={folder}", "-Dderby.system.durability=test")
        java_command = (*java(17), *derby, "-cp", f"{folder}:{jars}/*")
        _create_lock_tables(
            folder,
            [*java_command, "-Dij.database=jdbc:derby:metastore;create=true", "org.apache.derby.tools.ij"],
        )
        server = HiveMetastore(free_port())
        command = [
            *java_command,
            "-Xmx512m",
            "org.apache.hadoop.hive.metastore.HiveMetaStore",
            "-p",
            str(server.port),
        ]
        with running(command, folder / "hive-metastore.log", lambda: listens(server.port), cwd=folder):
            yield server

    return run


def _create_lock_tables(folder: Path, ij: list[str]) -> None:
    script = folder / "locks.sql"
    script.write_text(_LOCK_TABLES)
    done = subprocess.run(
        [*ij, str(script)], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode or "ERROR" in done.stdout:
        raise DidNotStart(f"Derby could not create the lock tables: {done.stdout[-500:]}{done.stderr[-500:]}")
