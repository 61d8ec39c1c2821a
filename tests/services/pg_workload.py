"""Random SQL: inserts, updates and deletes, one or many per transaction, and column changes."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.services.pg_ddl import change_columns
from tests.services.pg_source import COLUMNS, TABLE, Column, Columns, Source
from tests.services.pg_types import quoted
from tests.services.pg_values import large, value

KINDS = (
    "boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric(12,2)", "numeric",
    "character varying(20)", "character(9)", "text", "date", "time without time zone", "time with time zone",
    "timestamp without time zone", "timestamp with time zone", "interval", "uuid", "bytea", "json", "jsonb", "inet",
    "mood", "integer[]", "text[]", "double precision[]", "date[]", "boolean[]",
)  # fmt: skip
LARGE = ("text", "bytea", "json", "jsonb", "text[]", "integer[]")
KEYS = (("integer",), ("bigint",), ("text",), ("uuid",), ("integer", "character varying(20)"))
_KEY_COUNT = 30
Key = tuple[str, ...]
Cells = dict[str, str | None]


@dataclass
class Session:
    """A transaction. `busy` are the keys of a concurrent transaction."""

    cursor: Any  # of psycopg2, which ships no types
    rng: random.Random
    large: tuple[str, ...]
    busy: frozenset[Key] = frozenset()
    touched: set[Key] = field(default_factory=set)

    @property
    def columns(self) -> Columns:
        self.cursor.execute(COLUMNS)
        return Columns.parse(self.cursor.fetchone()[0])

    @property
    def non_keys(self) -> list[Column]:
        return [column for column in self.columns.columns if not column.key]

    def live(self, most: int = 1) -> list[Key]:
        """Return the keys of some existing rows."""
        names = ", ".join(f"{quoted(column.name)}::text" for column in self.columns.keys)
        self.cursor.execute(f"SELECT {names} FROM {TABLE} ORDER BY {names}")
        keys = [key for key in self.cursor.fetchall() if key not in self.busy]
        return self._touch(self.rng.sample(keys, min(len(keys), self.rng.randint(1, most))))

    def free(self) -> list[Key]:
        """Return a key that no row has, or nothing."""
        names = ", ".join(f"{quoted(column.name)}::text" for column in self.columns.keys)
        self.cursor.execute(f"SELECT {names} FROM {TABLE}")
        taken = {*self.cursor.fetchall(), *self.busy}
        found = next((key for key in (self.any_key() for _ in range(9)) if key not in taken), None)
        return self._touch([] if found is None else [found])

    def any_key(self) -> Key:
        return tuple(_key_part(column.type, self.rng.randrange(_KEY_COUNT)) for column in self.columns.keys)

    def _touch(self, keys: list[Key]) -> list[Key]:
        self.touched.update(keys)
        return keys

    def row(self, key: Key, columns: Iterable[Column]) -> Cells:
        """Return random values for a key and these columns."""
        keys = {column.name: part for column, part in zip(self.columns.keys, key, strict=True)}
        return keys | {column.name: self.cell(column) for column in columns}

    def cell(self, column: Column) -> str | None:
        is_large = column.type in self.large and self.rng.random() < 0.6
        return large(column.type, self.rng) if is_large else value(column.type, self.rng)

    def run(self, sql: str, values: Sequence[str | None] = ()) -> None:
        self.cursor.execute(sql, values)

    def where(self, keys: list[Key]) -> tuple[str, list[str]]:
        """Return an SQL condition for rows with one of these keys, with its parameters."""
        condition = " AND ".join(f"{quoted(column.name)} = %s" for column in self.columns.keys)
        return " OR ".join([f"({condition})"] * len(keys)), [part for key in keys for part in key]


def _key_part(kind: str, number: int) -> str:
    if kind == "uuid":
        return str(UUID(int=number * 0x1234567890ABCDEF1234567890ABCDEF % (1 << 128)))
    if kind in ("integer", "bigint"):
        return str(number - 5)
    return "" if number == 0 else f"{'kä€😀'[number % 4]}{number // 4}"


def insert(session: Session) -> None:
    """Insert a row; some columns are NULL by default."""
    for key in session.free():
        columns = [column for column in session.non_keys if session.rng.random() < 0.85]
        _insert(session, session.row(key, columns))


def _insert(session: Session, row: Cells, then: str = "") -> None:
    names, placeholders = ", ".join(quoted(name) for name in row), ", ".join(["%s"] * len(row))
    session.run(f"INSERT INTO {TABLE} ({names}) VALUES ({placeholders}) {then}", list(row.values()))


def copy(session: Session) -> None:
    """Insert several rows with one log record."""
    columns = session.columns.columns
    keys = {key for _ in range(4) for key in session.free()}
    rows = [session.row(key, session.non_keys) for key in sorted(keys)]
    lines = ["\t".join(_escaped(row[column.name]) for column in columns) for row in rows]
    names = ", ".join(quoted(column.name) for column in columns)
    session.cursor.copy_expert(f"COPY {TABLE} ({names}) FROM STDIN", io.StringIO("\n".join([*lines, ""])))


def _escaped(cell: str | None) -> str:
    return "\\N" if cell is None else cell.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def upsert(session: Session) -> None:
    """Insert or update a row."""
    key = session.any_key()
    if key in session.busy or not session.non_keys:
        return
    session.touched.add(key)
    keys = ", ".join(quoted(column.name) for column in session.columns.keys)
    changed = ", ".join(
        f"{quoted(column.name)} = excluded.{quoted(column.name)}" for column in _some(session, 3)
    )
    _insert(session, session.row(key, session.non_keys), f"ON CONFLICT ({keys}) DO UPDATE SET {changed}")


def _some(session: Session, most: int) -> list[Column]:
    return session.rng.sample(session.non_keys, min(len(session.non_keys), session.rng.randint(1, most)))


def update(session: Session) -> None:
    """Update some columns of some rows."""
    _update(session, session.live(3), _some(session, 4))


def update_twice(session: Session) -> None:
    """Update one row twice, in different columns."""
    keys = session.live()
    _update(session, keys, _some(session, 4))
    _update(session, keys, _some(session, 1))


def _update(session: Session, keys: list[Key], columns: list[Column]) -> None:
    if not keys or not columns:
        return
    row = {column.name: session.cell(column) for column in columns}
    changed = ", ".join(f"{quoted(name)} = %s" for name in row)
    where, parts = session.where(keys)
    session.run(f"UPDATE {TABLE} SET {changed} WHERE {where}", [*row.values(), *parts])


def touch(session: Session) -> None:
    """Update rows without changing a value."""
    for column in _some(session, 1):
        if keys := session.live(9):
            where, parts = session.where(keys)
            session.run(
                f"UPDATE {TABLE} SET {quoted(column.name)} = {quoted(column.name)} WHERE {where}", parts
            )


def delete(session: Session) -> None:
    """Delete some rows."""
    if keys := session.live(3):
        where, parts = session.where(keys)
        session.run(f"DELETE FROM {TABLE} WHERE {where}", parts)


def reinsert(session: Session) -> None:
    """Delete a row and insert a row with the same key."""
    for key in session.live():
        where, parts = session.where([key])
        session.run(f"DELETE FROM {TABLE} WHERE {where}", parts)
        _insert(session, session.row(key, session.non_keys))


def move(session: Session) -> None:
    """Change the key of a row and set its large values again."""
    _move(session, [column for column in session.non_keys if column.type in session.large])


def move_only(session: Session) -> None:
    """Change the key of a row and nothing else."""
    _move(session, [])


def _move(session: Session, columns: list[Column]) -> None:
    for key, new in zip(session.live(), session.free(), strict=False):
        row = session.row(new, columns)
        changed = ", ".join(f"{quoted(name)} = %s" for name in row)
        where, parts = session.where([key])
        session.run(f"UPDATE {TABLE} SET {changed} WHERE {where}", [*row.values(), *parts])


STATEMENTS: tuple[Callable[[Session], None], ...] = (
    insert, insert, insert, copy, upsert, update, update, update, update_twice, touch, delete, reinsert,
)  # fmt: skip


@dataclass
class Workload:
    """Random transactions on a source table; `done` counts the operations."""

    source: Source
    rng: random.Random
    moves: tuple[Callable[[Session], None], ...] = ()
    done: Counter[str] = field(default_factory=Counter)
    large: tuple[str, ...] = ()
    large_values: bool = True

    def create(self) -> None:
        """Create the table with some rows."""
        rng = self.rng
        keys, large_kinds = rng.choice(KEYS), tuple(rng.sample(LARGE, 2))
        kinds = [*keys, *rng.sample([kind for kind in KINDS if kind not in large_kinds], 8), *large_kinds]
        self.large = large_kinds if self.large_values else ()
        names = [f"k{index}" if index < len(keys) else f"c{index}" for index in range(len(kinds))]
        if rng.random() < 0.2:
            names[len(keys)] = rng.choice(("cdc_operation", "sequence_number"))
        definitions = ", ".join(f"{quoted(name)} {kind}" for name, kind in zip(names, kinds, strict=True))
        key = ", ".join(quoted(name) for name in names[: len(keys)])
        self.source.run("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy: ä')")
        self.source.run(f"CREATE TABLE {TABLE} ({definitions}, PRIMARY KEY ({key}))")
        self._commit([insert] * 8)

    def step(self, transactions: int, *, ddl: bool = True) -> None:
        """Run transactions. The last one changes a row, because a mirror applies column changes with rows."""
        for _ in range(transactions):
            if self.rng.random() < 0.15:
                self._overlap()
            else:
                self._commit(self._chosen(), ddl=ddl and self.rng.random() < 0.3)
        self._commit([upsert])

    def _chosen(self) -> list[Callable[[Session], None]]:
        return self.rng.choices((*STATEMENTS, *self.moves), k=self.rng.randint(1, 5))

    def _commit(self, statements: Sequence[Callable[[Session], None]], *, ddl: bool = False) -> None:
        connection = self.source.connect(timezone=self.rng.choice(("UTC", "Asia/Kolkata")))
        with connection.cursor() as cursor:
            session = Session(cursor, self.rng, self.large)
            self._run(session, statements, ddl=ddl)
            # The last transaction of a step has one statement and must be committed.
            if len(statements) > 1 and self.rng.random() < 0.1:
                connection.rollback()
                self.done["rolled back"] += 1
        connection.commit()
        connection.close()

    def _overlap(self) -> None:
        """Run two concurrent transactions; the one that logs its changes first commits last."""
        first, second = self.source.connect(), self.source.connect()
        with first.cursor() as first_cursor, second.cursor() as second_cursor:
            early = Session(first_cursor, self.rng, self.large)
            self._run(early, self._chosen())
            self._run(Session(second_cursor, self.rng, self.large, frozenset(early.touched)), self._chosen())
            second.commit()
            first.commit()
        first.close()
        second.close()
        self.done["overlapped"] += 1

    def _run(
        self, session: Session, statements: Sequence[Callable[[Session], None]], *, ddl: bool = False
    ) -> None:
        ddl_position = self.rng.randrange(len(statements)) if ddl else None
        for number, statement in enumerate(statements):
            if number == ddl_position:
                self.done[change_columns(session.columns, session.rng, session.run)] += 1
            session.run("SAVEPOINT before")
            statement(session)
            if len(statements) > 1 and self.rng.random() < 0.1:
                session.run("ROLLBACK TO SAVEPOINT before")
            self.done[statement.__name__] += 1
