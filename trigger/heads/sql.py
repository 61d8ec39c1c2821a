"""Heads of a SQL catalog: one query for all tables. SQLite through the standard library, read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from icemirror.catalogs.sql_address import missing_driver_error, missing_file_error, sqlite_path
from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.tables.table_id import TableId
from trigger.heads.head_source import HeadResult, missing_changelog

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Engine

_BUSY_SECONDS = 5.0
_CONNECT_SECONDS = 5
_TIMEOUT_BY_DRIVER = {
    "postgresql": "connect_timeout",  # SQLAlchemy's default drivers
    "mysql": "connect_timeout",
    "+psycopg": "connect_timeout",
    "+psycopg2": "connect_timeout",
    "+pymysql": "connect_timeout",
    "+mysqldb": "connect_timeout",
    "+pg8000": "timeout",
}
_VIEW = "VIEW"
Record = Mapping[str, Any]  # a database row; its columns have any type


class Database(Protocol):
    """Runs a query with named parameters (`:name`)."""

    def query(self, sql: str, parameters: Mapping[str, str]) -> list[Record]:
        """Return the rows, by column."""

    def close(self) -> None:
        """Release the connections."""


class SqlHeads:
    """Reads `iceberg_tables`, the table that every SQL catalog has."""

    def __init__(self, database: Database, catalog: str) -> None:
        self._database = database
        self._catalog = catalog

    def load_heads(self, tables: Sequence[TableId]) -> dict[TableId, HeadResult]:
        """Return the heads of all tables, with one query over their namespaces."""
        namespaces = sorted({".".join(table.namespace) for table in tables})
        locations = {
            (row["table_namespace"], row["table_name"]): row["metadata_location"]
            for row in self._query_tables(namespaces)
        }
        heads = {table: locations.get((".".join(table.namespace), table.name)) for table in tables}
        catalog = f"the catalog {self._catalog!r} (tables are stored under that `name`)"
        return {table: head or missing_changelog(table, catalog) for table, head in heads.items()}

    def list_tables(self, namespace: str) -> tuple[str, ...]:
        """Return the names of the tables in a namespace, without views."""
        rows = self._query_tables([namespace])
        return tuple(sorted(row["table_name"] for row in rows if row.get("iceberg_type") != _VIEW))

    def close(self) -> None:
        """Release the connections."""
        self._database.close()

    def _query_tables(self, namespaces: Sequence[str]) -> list[Record]:
        parameters = {f"namespace_{index}": namespace for index, namespace in enumerate(namespaces)}
        placeholders = ", ".join(f":{name}" for name in parameters)
        # Every column: only newer catalogs have `iceberg_type`.
        sql = f"SELECT * FROM iceberg_tables WHERE catalog_name = :catalog AND table_namespace IN ({placeholders})"  # noqa: S608
        return self._database.query(sql, {"catalog": self._catalog, **parameters})


class SqliteDatabase:
    """A SQLite file, opened for every query: the file may have been replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def query(self, sql: str, parameters: Mapping[str, str]) -> list[Record]:
        """Return the rows, by column."""
        if not self._path.exists():
            raise missing_file_error(self._path)
        try:
            uri = f"file:{quote(str(self._path))}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as connection:
                connection.row_factory = sqlite3.Row
                return [dict(row) for row in connection.execute(sql, parameters)]
        except sqlite3.Error as error:
            if "no such table" in str(error):
                return []  # an empty catalog
            raise self._classify_error(error) from error

    def close(self) -> None:
        """Do nothing: each query opens the file."""

    def _classify_error(self, error: sqlite3.Error) -> Exception:
        code = getattr(error, "sqlite_errorcode", None)
        match code if code is None else code & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return Transient(f"the catalog is locked by another process: {self._path}")
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                return Invalid(f"the catalog cannot be opened: check its permissions: {self._path}")
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return Invalid(f"the catalog is damaged or not a SQLite file ({error}): {self._path}")
            case _:
                return Transient(f"the catalog could not be read ({error}): {self._path}")


class AlchemyDatabase:
    """Any other database, through SQLAlchemy and the driver in its address."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def query(self, sql: str, parameters: Mapping[str, str]) -> list[Record]:
        """Return the rows, by column."""
        from sqlalchemy import text
        from sqlalchemy.exc import ProgrammingError, SQLAlchemyError

        name = self._engine.url.render_as_string(hide_password=True)
        try:
            with self._engine.connect() as connection:
                rows = connection.execute(text(sql), dict(parameters)).mappings()
                return [dict(row) for row in rows]
        except ProgrammingError as error:
            raise Invalid(f"{name} has no readable Iceberg catalog: {_reason(error)}") from error
        except SQLAlchemyError as error:
            raise Transient(f"the catalog {name} did not respond: {_reason(error)}") from error

    def close(self) -> None:
        """Close the connection pool."""
        self._engine.dispose()


def open_sql(uri: str, catalog: str) -> SqlHeads:
    """Open the SQL catalog at this address."""
    if (path := sqlite_path(uri)) is not None:
        return SqlHeads(SqliteDatabase(path), catalog)
    if uri.startswith("sqlite"):
        raise BadConfig(
            "a SQLite catalog in memory cannot be shared between processes: use a file, sqlite:////path"
        )
    return SqlHeads(AlchemyDatabase(_create_engine(uri)), catalog)


def _create_engine(uri: str) -> Engine:
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
        raise missing_driver_error(error.name) from None
    except (ArgumentError, NoSuchModuleError):
        raise BadConfig(
            "the catalog's uri is not a database address; write it as dialect+driver://host/name"
        ) from None


def connect_arguments(url: URL) -> dict[str, int]:
    """Return the connect timeout as an argument of the driver; empty for an unknown driver."""
    name = _TIMEOUT_BY_DRIVER.get(url.drivername) or _TIMEOUT_BY_DRIVER.get(
        f"+{url.drivername.partition('+')[2]}"
    )
    return {} if name is None or name in url.query else {name: _CONNECT_SECONDS}


def _reason(error: Exception) -> str:
    """Return the driver's message, without the statement and its parameters."""
    return str(getattr(error, "orig", None) or type(error).__name__).strip().partition("\n")[0]
