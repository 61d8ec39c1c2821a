"""A table of a real PostgreSQL as the source of a changelog: SQL goes in, transactions come out by logical decoding."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from psycopg2.extensions import ISOLATION_LEVEL_AUTOCOMMIT

from tests.services.pg_types import quoted
from tests.services.pgoutput import Begin, Commit, Decoder, Message, Relation, Row, Truncate
from tests.services.postgres import Postgres

TABLE = "world"
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PUBLICATION, _PREFIX = "changelog", "columns"

COLUMNS = f"""
SELECT json_build_object(
  'comment', obj_description('{TABLE}'::regclass, 'pg_class'),
  'columns', (
    SELECT json_agg(json_build_object(
        'number', attnum, 'name', attname, 'type', format_type(atttypid, atttypmod),
        'comment', col_description(attrelid, attnum), 'key', coalesce(attnum = ANY (indkey), false)
      ) ORDER BY attnum)
    FROM pg_attribute LEFT JOIN pg_index ON indrelid = attrelid AND indisprimary
    WHERE attrelid = '{TABLE}'::regclass AND attnum > 0 AND NOT attisdropped))::text
"""

# pgoutput tells names only, by which a renamed column is a new one. Columns have numbers in PostgreSQL, and a trigger
# tells them in the stream, at their place in it, as writers do that follow DDL.
_TELL_COLUMNS = f"""
CREATE FUNCTION tell_columns() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_logical_emit_message(true, '{_PREFIX}', ({COLUMNS})); END $$;
CREATE EVENT TRIGGER tell_columns ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'COMMENT')
  EXECUTE FUNCTION tell_columns();
"""


@dataclass(frozen=True)
class Column:
    """A column of the source; its number stays when its name changes, and is never given again."""

    number: int
    name: str
    type: str
    comment: str | None
    key: bool


@dataclass(frozen=True)
class Columns:
    """All that the source says of its table."""

    columns: tuple[Column, ...]
    comment: str | None

    @classmethod
    def of(cls, told: str) -> Columns:
        parsed = json.loads(told)
        return cls(tuple(Column(**one) for one in parsed["columns"]), parsed["comment"])

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.columns]

    @property
    def keys(self) -> list[Column]:
        return [one for one in self.columns if one.key]


@dataclass(frozen=True)
class Change:
    """A change of a row, all rows or the columns: where it was logged, and where its transaction was committed."""

    told: Row | Truncate | Columns
    lsn: int
    commit_lsn: int
    ordinal: int  # in its transaction


class Source:
    """A database, and a slot of its name. Whoever made the table calls `publish`, and gets the `changes` after that."""

    def __init__(self, server: Postgres, database: str) -> None:
        self.server, self.database = server, database
        self.connection = self.connect(timezone="UTC")
        self.connection.set_isolation_level(ISOLATION_LEVEL_AUTOCOMMIT)
        self._decoder = Decoder()
        self.copied_at = 0

    def connect(self, **settings: str) -> Any:
        """Another connection to the same database."""
        return self.server.connect(self.database, lock_timeout="5s", **settings)

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """One statement in a transaction of its own."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def publish(self) -> None:
        """From now on changes are kept until somebody takes them; the first time only."""
        if self.copied_at:
            return
        self.run(f"CREATE PUBLICATION {_PUBLICATION} FOR TABLE {TABLE}")
        self.run(_TELL_COLUMNS)
        ((at,),) = self.run(
            "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (self.database,)
        )
        self.copied_at = _lsn(at)

    def columns(self) -> Columns:
        """As they are now."""
        return Columns.of(self.run(COLUMNS)[0][0])

    def changes(self) -> Iterator[Change]:
        """What was committed since the last time, transaction by transaction."""
        messages = self.run(
            "SELECT lsn, xid::text::bigint, data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, "
            "'proto_version', '1', 'publication_names', %s, 'messages', 'true')",
            (self.database, _PUBLICATION),
        )
        begun, ordinal = Begin(0, 0), 0
        for lsn, xid, data in messages:
            match self._decoder.decode(bytes(data)):
                case Begin() as begun:
                    ordinal = 0
                    assert begun.xid == xid
                case Commit(commit_lsn):
                    assert commit_lsn == begun.commit_lsn
                case Relation() | None:
                    pass
                case Message(prefix, content):
                    assert prefix == _PREFIX
                    yield Change(Columns.of(content), _lsn(lsn), begun.commit_lsn, ordinal)
                case told:
                    yield Change(told, _lsn(lsn), begun.commit_lsn, ordinal)
                    ordinal += 1

    def copy(self, columns: Columns) -> Iterator[list[str | None]]:
        """All rows, as COPY tells them."""
        names, told = ", ".join(quoted(name) for name in columns.names), io.BytesIO()
        with self.connection.cursor() as cursor:
            cursor.copy_expert(f"COPY {TABLE} ({names}) TO STDOUT", told)
        for line in told.getvalue().decode().split("\n")[:-1]:
            yield [None if cell == "\\N" else _unescaped(cell) for cell in line.split("\t")]

    def skip_to_another_digit(self) -> None:
        """Until an LSN has one digit more than before, as a decimal number."""
        digits = len(str(self._now()))
        while len(str(self._now())) == digits:
            self.run("SELECT pg_switch_wal()")
            self.run("SELECT pg_create_restore_point('the next file of the log')")

    def _now(self) -> int:
        return _lsn(self.run("SELECT pg_current_wal_lsn()")[0][0])

    def close(self) -> None:
        """Lets go of the log that nobody takes any more."""
        own = (self.database,)
        self.run(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", own
        )
        self.connection.close()


def _unescaped(cell: str) -> str:
    return re.sub(r"\\(.)", lambda one: _ESCAPED.get(one[1], one[1]), cell)


def _lsn(text: str) -> int:
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


@contextmanager
def source(server: Postgres) -> Iterator[Source]:
    """An empty database until the block ends."""
    database = f"source_{uuid4().hex[:12]}"
    administration = server.connect()
    administration.set_isolation_level(ISOLATION_LEVEL_AUTOCOMMIT)
    with administration.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
        opened = Source(server, database)
        try:
            yield opened
        finally:
            opened.close()
            cursor.execute(f"DROP DATABASE {database} WITH (FORCE)")
            administration.close()
