"""Heads from a SQL catalog: one query for all tables. SQLite through the standard library, read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.sql_address import missing_driver, missing_file, sqlite_path
from icemirror.table_id import TableId
from trigger.heads.source import Head, missing

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Engine

_BUSY_SECONDS = 5.0
_CONNECT_SECONDS = 5
_TIMEOUT_BY_DRIVER = {
    "postgresql": "connect_timeout",  # the usual drivers of SQLAlchemy's
    "mysql": "connect_timeout",
    "+psycopg": "connect_timeout",
    "+psycopg2": "connect_timeout",
    "+pymysql": "connect_timeout",
    "+mysqldb": "connect_timeout",
    "+pg8000": "timeout",
}
_VIEW = "VIEW"
Record = Mapping[str, Any]  # a row of a database: its columns are of any type


class Database(Protocol):
    """Runs a query with named parameters (`:name`)."""

    def query(self, sql: str, parameters: Mapping[str, str]) -> list[Record]:
        """The rows, by column."""

    def close(self) -> None:
        """Lets go of connections."""


class SqlHeads:
    """Reads `iceberg_tables`, the one table that every SQL catalog keeps."""

    def __init__(self, database: Database, catalog: str) -> None:
        self._database = database
        self._catalog = catalog

    def look(self, tables: Sequence[TableId]) -> dict[TableId, Head]:
        """The heads of all tables, by one query over their namespaces."""
        namespaces = sorted({".".join(table.namespace) for table in tables})
        found = {
            (row["table_namespace"], row["table_name"]): row["metadata_location"]
            for row in self._rows(namespaces)
        }
        heads = {table: found.get((".".join(table.namespace), table.name)) for table in tables}
        where = f"the catalog {self._catalog!r} (its tables are kept under that `name`)"
        return {table: head or missing(table, where) for table, head in heads.items()}

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        """The names of the tables in a namespace; views are none."""
        rows = self._rows([namespace])
        return tuple(sorted(row["table_name"] for row in rows if row.get("iceberg_type") != _VIEW))

    def close(self) -> None:
        """Lets go of connections."""
        self._database.close()

    def _rows(self, namespaces: Sequence[str]) -> list[Record]:
        named = {f"namespace_{at}": namespace for at, namespace in enumerate(namespaces)}
        among = ", ".join(f":{name}" for name in named)
        # Every column: `iceberg_type` is there only in newer catalogs.
        sql = f"SELECT * FROM iceberg_tables WHERE catalog_name = :catalog AND table_namespace IN ({among})"  # noqa: S608
        return self._database.query(sql, {"catalog": self._catalog, **named})


class SqliteDatabase:
    """A SQLite file, opened for every look: the file may have been replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def query(self, sql: str, parameters: Mapping[str, str]) -> list[Record]:
        """The rows, by column."""
        if not self._path.exists():
            raise missing_file(self._path)
        try:
            uri = f"file:{quote(str(self._path))}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as connection:
                connection.row_factory = sqlite3.Row
                return [dict(row) for row in connection.execute(sql, parameters)]
        except sqlite3.Error as error:
            if "no such table" in str(error):
                return []  # a catalog that has not been used yet
            raise self._named(error) from error

    def close(self) -> None:
        """Nothing stays open."""

    def _named(self, error: sqlite3.Error) -> Exception:
        code = getattr(error, "sqlite_errorcode", None)
        match code if code is None else code & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return Transient(f"the catalog {self._path} is locked by another process")
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                return Invalid(f"the catalog {self._path} cannot be opened: may it be read?")
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return Invalid(f"the catalog {self._path} is damaged, or no SQLite file ({error})")
            case _:
                return Transient(f"the catalog {self._path} could not be read: {error}")


class AlchemyDatabase:
    """Any other database, through SQLAlchemy and the driver that its address names."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def query(self, sql: str, parameters: Mapping[str, str]) -> list[Record]:
        """The rows, by column."""
        from sqlalchemy import text
        from sqlalchemy.exc import ProgrammingError, SQLAlchemyError

        name = self._engine.url.render_as_string(hide_password=True)
        try:
            with self._engine.connect() as connection:
                found = connection.execute(text(sql), dict(parameters))
                return [dict(row) for row in found.mappings()]
        except ProgrammingError as error:
            raise Invalid(f"{name} holds no Iceberg catalog that can be read: {_reason(error)}") from error
        except SQLAlchemyError as error:
            raise Transient(f"the catalog {name} did not answer: {_reason(error)}") from error

    def close(self) -> None:
        """Closes the pool."""
        self._engine.dispose()


def open_sql(uri: str, catalog: str) -> SqlHeads:
    """The SQL catalog at this address."""
    if (path := sqlite_path(uri)) is not None:
        return SqlHeads(SqliteDatabase(path), catalog)
    if uri.startswith("sqlite"):
        raise BadConfig("a SQLite catalog in memory belongs to one process: give it a file, sqlite:////path")
    return SqlHeads(AlchemyDatabase(_engine(uri)), catalog)


def _engine(uri: str) -> Engine:
    try:
        from sqlalchemy import create_engine, make_url
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    except ModuleNotFoundError:
        raise BadConfig(
            "a SQL catalog other than SQLite needs SQLAlchemy and a driver: pip install 'icemirror[job]'"
        ) from None
    try:
        arguments = connect_arguments(make_url(uri))
        return create_engine(uri, pool_pre_ping=True, pool_size=1, connect_args=arguments)
    except ModuleNotFoundError as error:
        raise missing_driver(error.name) from None
    except (ArgumentError, NoSuchModuleError):
        raise BadConfig("the catalog's uri is no address of a database, dialect+driver://host/name") from None


def connect_arguments(url: URL) -> dict[str, int]:
    """How long a driver waits for a connection, where it is one whose way of saying that is known."""
    name = _TIMEOUT_BY_DRIVER.get(url.drivername) or _TIMEOUT_BY_DRIVER.get(
        f"+{url.drivername.partition('+')[2]}"
    )
    return {} if name is None or name in url.query else {name: _CONNECT_SECONDS}


def _reason(error: Exception) -> str:
    """The driver's own words, without the statement and its parameters."""
    return str(getattr(error, "orig", None) or type(error).__name__).strip().partition("\n")[0]
