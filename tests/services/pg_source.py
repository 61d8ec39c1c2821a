"""A PostgreSQL table as the source of a changelog: runs SQL, and reads transactions through logical decoding."""

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

# pgoutput contains column names only, so a renamed column looks like a new one. An event trigger emits the column
# numbers into the stream after each DDL statement, as writers with DDL support do.
_EMIT_COLUMNS = f"""
CREATE FUNCTION emit_columns() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_logical_emit_message(true, '{_PREFIX}', ({COLUMNS})); END $$;
CREATE EVENT TRIGGER emit_columns ON ddl_command_end WHEN TAG IN ('ALTER TABLE', 'COMMENT')
  EXECUTE FUNCTION emit_columns();
"""


@dataclass(frozen=True)
class Column:
    """A column of the source. Its number survives a rename and is never reused."""

    number: int
    name: str
    type: str
    comment: str | None
    key: bool


@dataclass(frozen=True)
class Columns:
    """The columns and the comment of the source table."""

    columns: tuple[Column, ...]
    comment: str | None

    @classmethod
    def parse(cls, text: str) -> Columns:
        parsed = json.loads(text)
        return cls(tuple(Column(**column) for column in parsed["columns"]), parsed["comment"])

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def keys(self) -> list[Column]:
        return [column for column in self.columns if column.key]


@dataclass(frozen=True)
class Change:
    """A change of a row, of all rows or of the columns, with its LSN and the LSN of its commit."""

    content: Row | Truncate | Columns
    lsn: int
    commit_lsn: int
    ordinal: int  # in its transaction


class Source:
    """A database with a replication slot of the same name. After `publish`, `changes` returns the later changes."""

    def __init__(self, server: Postgres, database: str) -> None:
        self.server, self.database = server, database
        self.connection = self.connect(timezone="UTC")
        self.connection.set_isolation_level(ISOLATION_LEVEL_AUTOCOMMIT)
        self._decoder = Decoder()
        self.copied_at = 0

    def connect(self, **settings: str) -> Any:
        """Return a new connection to the database."""
        return self.server.connect(self.database, lock_timeout="5s", **settings)

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement in a separate transaction."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def publish(self) -> None:
        """Create the publication and the slot, which retains changes from now on; only the first call has an effect."""
        if self.copied_at:
            return
        self.run(f"CREATE PUBLICATION {_PUBLICATION} FOR TABLE {TABLE}")
        self.run(_EMIT_COLUMNS)
        ((lsn,),) = self.run(
            "SELECT lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (self.database,)
        )
        self.copied_at = _lsn(lsn)

    def columns(self) -> Columns:
        """Return the current columns."""
        return Columns.parse(self.run(COLUMNS)[0][0])

    def changes(self) -> Iterator[Change]:
        """Return the changes since the previous call, in commit order."""
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
                    yield Change(Columns.parse(content), _lsn(lsn), begun.commit_lsn, ordinal)
                case change:
                    yield Change(change, _lsn(lsn), begun.commit_lsn, ordinal)
                    ordinal += 1

    def copy(self, columns: Columns) -> Iterator[list[str | None]]:
        """Return all rows in the text format of COPY."""
        names, output = ", ".join(quoted(name) for name in columns.names), io.BytesIO()
        with self.connection.cursor() as cursor:
            cursor.copy_expert(f"COPY {TABLE} ({names}) TO STDOUT", output)
        for line in output.getvalue().decode().split("\n")[:-1]:
            yield [None if cell == "\\N" else _unescaped(cell) for cell in line.split("\t")]

    def advance_lsn_to_more_digits(self) -> None:
        """Advance the log until its LSN has one decimal digit more."""
        digits = len(str(self._current_lsn()))
        while len(str(self._current_lsn())) == digits:
            self.run("SELECT pg_switch_wal()")
            self.run("SELECT pg_create_restore_point('next WAL file')")

    def _current_lsn(self) -> int:
        return _lsn(self.run("SELECT pg_current_wal_lsn()")[0][0])

    def close(self) -> None:
        """Drop the replication slot, which releases the log."""
        database = (self.database,)
        self.run(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
            database,
        )
        self.connection.close()


def _unescaped(cell: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPED.get(match[1], match[1]), cell)


def _lsn(text: str) -> int:
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


@contextmanager
def source(server: Postgres) -> Iterator[Source]:
    """Create an empty database and drop it at the end of the block."""
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
