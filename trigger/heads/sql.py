"""Head pointers of an Iceberg SQL catalog, by query."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.table_id import TableId
from trigger.heads.catalog import HeadCatalog

if TYPE_CHECKING:
    from sqlalchemy import Engine

_SQLITE = "sqlite:///"
_BUSY_SECONDS = 10.0
_HEAD = (
    "SELECT metadata_location FROM iceberg_tables"
    " WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
)
_TABLES = (
    "SELECT table_name FROM iceberg_tables WHERE catalog_name = :catalog AND table_namespace = :namespace"
)


def open_sql(uri: str, name: str) -> HeadCatalog:
    """The catalog behind a database address."""
    if uri.startswith(_SQLITE):
        return SqliteHeads(Path(uri.removeprefix(_SQLITE)), name)
    try:
        from sqlalchemy import create_engine
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    except ModuleNotFoundError as error:
        raise BadConfig(
            f"catalog {name}: a SQL catalog other than SQLite needs: pip install sqlalchemy"
        ) from error
    try:
        return SqlAlchemyHeads(create_engine(uri, pool_pre_ping=True), name)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise BadConfig(f"catalog {name}: its uri cannot be used: {error}") from error


@dataclass(frozen=True)
class SqliteHeads:
    """A SQLite file, opened read-only for each question, so that none is held open and none is created."""

    path: Path
    name: str

    def head(self, table: TableId) -> str | None:
        """The location of the table's current metadata."""
        rows = self._ask(_HEAD, {"namespace": ".".join(table.namespace), "name": table.name})
        return rows[0] if rows else None

    def list_tables(self, namespace: str) -> list[str]:
        """The tables of a namespace."""
        return self._ask(_TABLES, {"namespace": namespace})

    def _ask(self, query: str, values: Mapping[str, str]) -> list[str]:
        if not self.path.exists():
            raise Transient(
                f"catalog {self.name}: there is no database at {self.path}; its writer creates it"
            )
        address = f"file:{quote(str(self.path))}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as connection:
                return [row[0] for row in connection.execute(query, {"catalog": self.name, **values})]
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []  # the catalog is being created
            raise Transient(f"catalog {self.name}: {self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise Invalid(f"catalog {self.name}: {self.path} is not a SQLite database: {error}") from error


@dataclass(frozen=True)
class SqlAlchemyHeads:
    """Any other database, through SQLAlchemy."""

    engine: Engine
    name: str

    def head(self, table: TableId) -> str | None:
        """The location of the table's current metadata."""
        rows = self._ask(_HEAD, {"namespace": ".".join(table.namespace), "name": table.name})
        return rows[0] if rows else None

    def list_tables(self, namespace: str) -> list[str]:
        """The tables of a namespace."""
        return self._ask(_TABLES, {"namespace": namespace})

    def _ask(self, query: str, values: Mapping[str, str]) -> list[str]:
        from sqlalchemy import text

        with self._named(), self.engine.connect() as connection:
            return [str(row[0]) for row in connection.execute(text(query), {"catalog": self.name, **values})]

    @contextmanager
    def _named(self) -> Iterator[None]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except SQLAlchemyError as error:
            raise Transient(f"catalog {self.name}: the database did not answer: {error}") from error
