"""State in a SQLite file: the embedded default, for any number of processes on one machine."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from icemirror.protocol.row_selection import RowSelection
from icemirror.protocol.rows import Row, Rows
from icemirror.stores.dead_letters import MAX_LETTERS, DeadLetter, dump_letter, letters_to_drop, load_letter
from icemirror.stores.sqlite_file import (
    classify_error,
    moved_error,
    open_for_writing,
    open_read_only,
    read_device_and_inode,
)
from icemirror.stores.store import SLOT, TABLE, ResultPage, TurnResult, keys_by_kind, row_key
from icemirror.stores.stored_json import dump_result, dump_row, load_result, load_slot, load_table

_MAX_RESULTS_PER_TABLE = 200
LETTER_AGES = "SELECT id, received_at FROM letters ORDER BY received_at"  # covered by an index


class SqliteStore:
    """A store in one file with a write-ahead log: readers never wait, writers wait for one another."""

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        busy_seconds: float = 10.0,
        kept_results: int = _MAX_RESULTS_PER_TABLE,
        kept_letters: int = MAX_LETTERS,
    ) -> None:
        self._path = path.absolute()  # the working directory may change
        self._device_and_inode: tuple[int, int] | None = None
        self._kept_results = kept_results
        self._kept_letters = kept_letters
        self._lock = threading.RLock()
        with self._translated_errors():
            open_connection = open_read_only if read_only else open_for_writing
            self._connection = open_connection(self._path, busy_seconds)
        self._device_and_inode = read_device_and_inode(self._path)

    def load(self, selection: RowSelection) -> Rows:
        """Return the selected rows that exist, from one consistent snapshot."""
        conditions, arguments = [], []
        for kind, keys in keys_by_kind(selection).items():
            if keys is None:
                conditions.append("kind = ?")
            elif keys:
                conditions.append(f"kind = ? AND key IN ({', '.join('?' * len(keys))})")
            else:
                continue
            arguments += [kind, *(keys or ())]
        query = f"SELECT kind, revision, body FROM state WHERE {' OR '.join(conditions) or '0'}"  # noqa: S608
        with self._translated_errors():
            records = self._connection.execute(query, arguments).fetchall()
        tables = [load_table(body, str(revision)) for kind, revision, body in records if kind == TABLE]
        slots = [load_slot(body, str(revision)) for kind, revision, body in records if kind == SLOT]
        return Rows({row.name: row for row in tables}, {row.id: row for row in slots})

    def compare_and_set(self, row: Row) -> bool:
        """Write the row if the stored one still has its revision."""
        key = row_key(row)
        with self._translated_errors():
            if row.revision:
                update = (
                    "UPDATE state SET body = ?, revision = revision + 1 "
                    "WHERE kind = ? AND key = ? AND revision = ?"
                )
                arguments = (dump_row(row), *key, int(row.revision))
                return self._connection.execute(update, arguments).rowcount == 1
            insert = (
                "INSERT INTO state (body, kind, key, revision) VALUES (?, ?, ?, 1) ON CONFLICT DO NOTHING"
            )
            return self._connection.execute(insert, (dump_row(row), *key)).rowcount == 1

    def change_token(self) -> str:
        """Return SQLite's counters of writes by other connections and by this one."""
        with self._translated_errors():
            (data_version,) = self._connection.execute("PRAGMA data_version").fetchone()
            return f"{data_version}.{self._connection.total_changes}"

    def record_result(self, result: TurnResult) -> None:
        """Append to the table's history and drop its oldest results."""
        table = result.table_result.table
        with self._translated_errors(), self._transaction():
            self._connection.execute(
                "INSERT INTO results (name, run_id, at, body) VALUES (?, ?, ?, ?)",
                (table, result.run_id, result.recorded_at, dump_result(result.table_result)),
            )
            self._connection.execute(
                "DELETE FROM results WHERE name = ? AND id <= "
                "(SELECT id FROM results WHERE name = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (table, table, self._kept_results),
            )

    def results_since(self, cursor: str) -> ResultPage:
        """Return the results of all tables after the cursor."""
        with self._translated_errors():
            records = self._connection.execute(
                "SELECT id, run_id, at, body FROM results WHERE id > ? ORDER BY id LIMIT 1000",
                (int(cursor or 0),),
            ).fetchall()
        results = [load_result(run_id, recorded_at, body) for _, run_id, recorded_at, body in records]
        readable = tuple(result for result in results if result is not None)
        return ResultPage(readable, str(records[-1][0]) if records else cursor)

    def last_cursor(self) -> str:
        """Return the cursor after the newest result."""
        with self._translated_errors():
            (newest_id,) = self._connection.execute("SELECT max(id) FROM results").fetchone()
        return str(newest_id or "")

    def put_letter(self, letter: DeadLetter) -> None:
        """Store a dead letter and drop those above the limits."""
        with self._translated_errors(), self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO letters (id, received_at, body) VALUES (?, ?, ?)",
                (letter.id, letter.received_at, dump_letter(letter)),
            )
            letters = self._connection.execute(LETTER_AGES).fetchall()
            dropped_ids = letters_to_drop(letters, letter.received_at, self._kept_letters)
            self._connection.executemany(
                "DELETE FROM letters WHERE id = ?", [(letter_id,) for letter_id in dropped_ids]
            )

    def letters(self) -> tuple[DeadLetter, ...]:
        """Return all dead letters, oldest first."""
        with self._translated_errors():
            records = self._connection.execute(
                "SELECT id, body FROM letters ORDER BY received_at, id"
            ).fetchall()
        return tuple(load_letter(letter_id, body) for letter_id, body in records)

    def remove_letter(self, letter_id: str) -> bool:
        """Delete a dead letter; return whether it existed."""
        with self._translated_errors():
            return self._connection.execute("DELETE FROM letters WHERE id = ?", (letter_id,)).rowcount == 1

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                self._check_location()
                raise classify_error(self._path, error) from error
            self._check_location()

    def _check_location(self) -> None:
        """Raise if the file was moved or deleted: later writes would be lost."""
        if self._device_and_inode is None or read_device_and_inode(self._path) == self._device_and_inode:
            return
        with suppress(sqlite3.Error):  # so that the moved file holds all earlier writes
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raise moved_error(self._path)
