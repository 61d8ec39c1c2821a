"""A Hive Metastore in this process, with a Thrift interface. Tests choose its tables, version and faults.

It uses the `thrift` package and PyIceberg's stubs, so that it checks the product's own reader independently.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hive_metastore.ThriftHiveMetastore import Processor
from hive_metastore.ttypes import (
    FieldSchema,
    GetTableResult,
    GetTablesRequest,
    GetTablesResult,
    MetaException,
    NoSuchObjectException,
    SkewedInfo,
    StorageDescriptor,
    Table,
    UnknownDBException,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

NOT_IN_HIVE_4 = ("get_table", "get_table_objects_by_name")
NOT_IN_HIVE_2 = ("get_table_req", "get_table_objects_by_name_req")


class Metastore:
    """`tables`: parameters by database and name. `error`: raised instead of an answer. `calls`: methods called."""

    def __init__(self, without: tuple[str, ...] = NOT_IN_HIVE_4) -> None:
        self.tables: dict[tuple[str, str], dict[str, str]] = {}
        self.skewed: set[tuple[str, str]] = set()
        self.columns = 3
        self.error: MetaException | None = None
        self.calls: list[str] = []
        self.users: list[tuple[str, list[str]]] = []
        self.port = 0
        self.processor = Processor(self)
        for method in without:
            del self.processor._processMap[method]

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def add(self, database: str, name: str, head: str) -> None:
        """Add an Iceberg table."""
        self.tables[database, name] = {"table_type": "ICEBERG", "metadata_location": head}

    def add_skewed(self, database: str, name: str) -> None:
        """Add a Hive table with list bucketing: its skewed locations are a map with lists as keys."""
        self.tables[database, name] = {}
        self.skewed.add((database, name))

    def get_table(self, dbname: str, tbl_name: str) -> Table:
        self.calls.append("get_table")
        name = (dbname.lower(), tbl_name.lower())
        if name not in self.tables:
            raise NoSuchObjectException("table not found")
        return self._table(*name)

    def get_table_req(self, req: Any) -> GetTableResult:
        return GetTableResult(self.get_table(req.dbName, req.tblName))

    def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> list[Table]:
        self.calls.append("get_table_objects_by_name")
        if self.error is not None:
            raise self.error
        database = dbname.lower()
        if database not in {known for known, _ in self.tables}:
            raise UnknownDBException("could not find database")
        return [
            self._table(database, name.lower())
            for name in tbl_names
            if (database, name.lower()) in self.tables
        ]

    def get_table_objects_by_name_req(self, req: GetTablesRequest) -> GetTablesResult:
        assert req.capabilities.values == [2]
        return GetTablesResult(self.get_table_objects_by_name(req.dbName, req.tblNames))

    def get_all_tables(self, db_name: str) -> list[str]:
        return [name for database, name in self.tables if database == db_name.lower()]

    def set_ugi(self, user_name: str, group_names: list[str]) -> list[str]:
        self.users.append((user_name, group_names))
        return group_names

    def _table(self, database: str, name: str) -> Table:
        columns = [FieldSchema(f"c{at}", "string", None) for at in range(self.columns)]
        storage = StorageDescriptor(columns)
        if (database, name) in self.skewed:
            storage.skewedInfo = SkewedInfo(["c0"], [["de"]], {("de",): f"hdfs://n/{name}/c0=de"})
        return Table(name, database, "me", 1, 2, 0, storage, [], self.tables[database, name])


@contextmanager
def serving(server: Metastore) -> Iterator[Metastore]:
    """Serve the metastore on a free port."""

    def answer(stream: socket.socket) -> None:
        transport = TSocket()
        transport.setHandle(stream)
        protocol = TBinaryProtocol(TBufferedTransport(transport))
        try:
            while True:
                server.processor.process(protocol, protocol)
        except (TTransportException, OSError):
            transport.close()

    with listening(answer) as server.port:
        yield server


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Pass each connection of a free port to `answer`, in a separate thread; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                try:
                    stream, _ = listener.accept()
                except TimeoutError:
                    continue
                stream.settimeout(None)
                threading.Thread(target=answer, args=(stream,), daemon=True).start()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            done.set()
            thread.join()
