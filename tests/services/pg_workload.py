"""SQL by chance: rows come, change and go, alone and many in a transaction, and so do columns."""

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
    """A transaction. Keys that are `busy` are those of another one, which is open as well."""

    cursor: Any  # of psycopg2, which ships no types
    chance: random.Random
    large: tuple[str, ...]
    busy: frozenset[Key] = frozenset()
    touched: set[Key] = field(default_factory=set)

    @property
    def columns(self) -> Columns:
        self.cursor.execute(COLUMNS)
        return Columns.of(self.cursor.fetchone()[0])

    @property
    def others(self) -> list[Column]:
        return [one for one in self.columns.columns if not one.key]

    def live(self, most: int = 1) -> list[Key]:
        """Some rows, by key."""
        names = ", ".join(f"{quoted(one.name)}::text" for one in self.columns.keys)
        self.cursor.execute(f"SELECT {names} FROM {TABLE} ORDER BY {names}")
        keys = [key for key in self.cursor.fetchall() if key not in self.busy]
        return self._touch(self.chance.sample(keys, min(len(keys), self.chance.randint(1, most))))

    def free(self) -> list[Key]:
        """A key that no row has."""
        names = ", ".join(f"{quoted(one.name)}::text" for one in self.columns.keys)
        self.cursor.execute(f"SELECT {names} FROM {TABLE}")
        taken = {*self.cursor.fetchall(), *self.busy}
        found = next((key for key in (self.any_key() for _ in range(9)) if key not in taken), None)
        return self._touch([] if found is None else [found])

    def any_key(self) -> Key:
        return tuple(_key_part(one.type, self.chance.randrange(_KEY_COUNT)) for one in self.columns.keys)

    def _touch(self, keys: list[Key]) -> list[Key]:
        self.touched.update(keys)
        return keys

    def row(self, key: Key, columns: Iterable[Column]) -> Cells:
        """Values for a row, or for some of its columns."""
        keys = {one.name: part for one, part in zip(self.columns.keys, key, strict=True)}
        return keys | {one.name: self.cell(one) for one in columns}

    def cell(self, column: Column) -> str | None:
        is_large = column.type in self.large and self.chance.random() < 0.6
        return large(column.type, self.chance) if is_large else value(column.type, self.chance)

    def run(self, sql: str, values: Sequence[str | None] = ()) -> None:
        self.cursor.execute(sql, values)

    def where(self, keys: list[Key]) -> tuple[str, list[str]]:
        """The condition that a row has one of these keys."""
        one = " AND ".join(f"{quoted(column.name)} = %s" for column in self.columns.keys)
        return " OR ".join([f"({one})"] * len(keys)), [part for key in keys for part in key]


def _key_part(kind: str, number: int) -> str:
    if kind == "uuid":
        return str(UUID(int=number * 0x1234567890ABCDEF1234567890ABCDEF % (1 << 128)))
    if kind in ("integer", "bigint"):
        return str(number - 5)
    return "" if number == 0 else f"{'kä€😀'[number % 4]}{number // 4}"


def insert(at: Session) -> None:
    """A row, of which some columns are left to be NULL."""
    for key in at.free():
        some = [one for one in at.others if at.chance.random() < 0.85]
        _insert(at, at.row(key, some))


def _insert(at: Session, row: Cells, then: str = "") -> None:
    names, marks = ", ".join(quoted(name) for name in row), ", ".join(["%s"] * len(row))
    at.run(f"INSERT INTO {TABLE} ({names}) VALUES ({marks}) {then}", list(row.values()))


def copy(at: Session) -> None:
    """Several rows with one record of the log."""
    columns = at.columns.columns
    keys = {key for _ in range(4) for key in at.free()}
    rows = [at.row(key, at.others) for key in sorted(keys)]
    lines = ["\t".join(_copied(row[one.name]) for one in columns) for row in rows]
    names = ", ".join(quoted(one.name) for one in columns)
    at.cursor.copy_expert(f"COPY {TABLE} ({names}) FROM STDIN", io.StringIO("\n".join([*lines, ""])))


def _copied(cell: str | None) -> str:
    return "\\N" if cell is None else cell.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def upsert(at: Session) -> None:
    """A row, whether it is there or not."""
    key = at.any_key()
    if key in at.busy or not at.others:
        return
    at.touched.add(key)
    keys = ", ".join(quoted(one.name) for one in at.columns.keys)
    changed = ", ".join(f"{quoted(one.name)} = excluded.{quoted(one.name)}" for one in _some(at, 3))
    _insert(at, at.row(key, at.others), f"ON CONFLICT ({keys}) DO UPDATE SET {changed}")


def _some(at: Session, most: int) -> list[Column]:
    return at.chance.sample(at.others, min(len(at.others), at.chance.randint(1, most)))


def update(at: Session) -> None:
    """Some columns of some rows."""
    _update(at, at.live(3), _some(at, 4))


def update_twice(at: Session) -> None:
    """The same row, in other columns."""
    keys = at.live()
    _update(at, keys, _some(at, 4))
    _update(at, keys, _some(at, 1))


def _update(at: Session, keys: list[Key], columns: list[Column]) -> None:
    if not keys or not columns:
        return
    row = {one.name: at.cell(one) for one in columns}
    changed = ", ".join(f"{quoted(name)} = %s" for name in row)
    where, parts = at.where(keys)
    at.run(f"UPDATE {TABLE} SET {changed} WHERE {where}", [*row.values(), *parts])


def touch(at: Session) -> None:
    """Rows that stay as they are."""
    for one in _some(at, 1):
        if keys := at.live(9):
            where, parts = at.where(keys)
            at.run(f"UPDATE {TABLE} SET {quoted(one.name)} = {quoted(one.name)} WHERE {where}", parts)


def delete(at: Session) -> None:
    """Some rows."""
    if keys := at.live(3):
        where, parts = at.where(keys)
        at.run(f"DELETE FROM {TABLE} WHERE {where}", parts)


def put_anew(at: Session) -> None:
    """A row goes, and one with its key comes."""
    for key in at.live():
        where, parts = at.where([key])
        at.run(f"DELETE FROM {TABLE} WHERE {where}", parts)
        _insert(at, at.row(key, at.others))


def move(at: Session) -> None:
    """A row gets another key, and its large values are told anew."""
    _move(at, [one for one in at.others if one.type in at.large])


def move_only(at: Session) -> None:
    """A row gets another key, and keeps all else."""
    _move(at, [])


def _move(at: Session, told: list[Column]) -> None:
    for key, new in zip(at.live(), at.free(), strict=False):
        row = at.row(new, told)
        changed = ", ".join(f"{quoted(name)} = %s" for name in row)
        where, parts = at.where([key])
        at.run(f"UPDATE {TABLE} SET {changed} WHERE {where}", [*row.values(), *parts])


STATEMENTS: tuple[Callable[[Session], None], ...] = (
    insert, insert, insert, copy, upsert, update, update, update, update_twice, touch, delete, put_anew,
)  # fmt: skip


@dataclass
class Workload:
    """Transactions on the table of a source, and what was done."""

    source: Source
    chance: random.Random
    moves: tuple[Callable[[Session], None], ...] = ()
    done: Counter[str] = field(default_factory=Counter)
    large: tuple[str, ...] = ()
    large_values: bool = True

    def create(self) -> None:
        """The table, with some rows."""
        chance = self.chance
        keys, some = chance.choice(KEYS), tuple(chance.sample(LARGE, 2))
        kinds = [*keys, *chance.sample([kind for kind in KINDS if kind not in some], 8), *some]
        self.large = some if self.large_values else ()
        names = [f"k{at}" if at < len(keys) else f"c{at}" for at in range(len(kinds))]
        if chance.random() < 0.2:
            names[len(keys)] = chance.choice(("cdc_operation", "sequence_number"))
        told = ", ".join(f"{quoted(name)} {kind}" for name, kind in zip(names, kinds, strict=True))
        key = ", ".join(quoted(name) for name in names[: len(keys)])
        self.source.run("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy: ä')")
        self.source.run(f"CREATE TABLE {TABLE} ({told}, PRIMARY KEY ({key}))")
        self._commit([insert] * 8)

    def step(self, transactions: int, *, ddl: bool = True) -> None:
        """Some transactions. The last one changes a row: a mirror follows columns when rows come."""
        for _ in range(transactions):
            if self.chance.random() < 0.15:
                self._overlap()
            else:
                self._commit(self._chosen(), ddl=ddl and self.chance.random() < 0.3)
        self._commit([upsert])

    def _chosen(self) -> list[Callable[[Session], None]]:
        return self.chance.choices((*STATEMENTS, *self.moves), k=self.chance.randint(1, 5))

    def _commit(self, statements: Sequence[Callable[[Session], None]], *, ddl: bool = False) -> None:
        connection = self.source.connect(timezone=self.chance.choice(("UTC", "Asia/Kolkata")))
        with connection.cursor() as cursor:
            at = Session(cursor, self.chance, self.large)
            self._run(at, statements, ddl=ddl)
            # The last transaction of a step is that of one statement, and counts.
            if len(statements) > 1 and self.chance.random() < 0.1:
                connection.rollback()
                self.done["rolled back"] += 1
        connection.commit()
        connection.close()

    def _overlap(self) -> None:
        """Two transactions at once; the one whose changes are logged first is committed last."""
        first, second = self.source.connect(), self.source.connect()
        with first.cursor() as one, second.cursor() as other:
            early = Session(one, self.chance, self.large)
            self._run(early, self._chosen())
            self._run(Session(other, self.chance, self.large, frozenset(early.touched)), self._chosen())
            second.commit()
            first.commit()
        first.close()
        second.close()
        self.done["overlapped"] += 1

    def _run(
        self, at: Session, statements: Sequence[Callable[[Session], None]], *, ddl: bool = False
    ) -> None:
        changes_columns = self.chance.randrange(len(statements)) if ddl else None
        for number, statement in enumerate(statements):
            if number == changes_columns:
                self.done[change_columns(at.columns, at.chance, at.run)] += 1
            at.run("SAVEPOINT before")
            statement(at)
            if len(statements) > 1 and self.chance.random() < 0.1:
                at.run("ROLLBACK TO SAVEPOINT before")
            self.done[statement.__name__] += 1
