"""The generator's journal: every event, outside Iceberg in one SQLite file. Its replay is the first oracle."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from icemirror.cli.demo.oracle.canonical import render_rows
from icemirror.cli.demo.oracle.source_table import SourceTable

VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS commits (
    subject TEXT NOT NULL, commit_no INTEGER NOT NULL, snapshot_id INTEGER NOT NULL, events INTEGER NOT NULL,
    landed INTEGER NOT NULL, PRIMARY KEY (subject, commit_no)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    subject TEXT NOT NULL, commit_no INTEGER NOT NULL, file_no INTEGER NOT NULL, path TEXT NOT NULL,
    PRIMARY KEY (subject, commit_no, file_no)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    subject TEXT NOT NULL, commit_no INTEGER NOT NULL, file_no INTEGER NOT NULL, pos INTEGER NOT NULL,
    operation TEXT NOT NULL, sequence TEXT NOT NULL, key BLOB NOT NULL, image BLOB NOT NULL,
    PRIMARY KEY (subject, commit_no, file_no, pos)) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit on a changelog; `commit_no` counts from 0 in the order of the snapshots."""

    commit_no: int
    snapshot_id: int
    events: int


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """A point in a changelog's history: all commits before `commit_no`, and the first files of that one."""

    commit_no: int
    files: int


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A changelog file of the generator."""

    commit_no: int
    file_no: int
    path: str


class Journal:
    """Written along with the changelogs: the events, then the commit, then its confirmation."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    @classmethod
    def open(cls, path: Path | None) -> Journal:
        """Open the journal in this file, created if missing; None: in memory."""
        # Opened in one thread and written in another, never concurrently.
        connection = sqlite3.connect(path or ":memory:", check_same_thread=False)
        # A power cut may cost the journal; a killed process may not.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.executescript(_TABLES)
        journal = cls(connection)
        version = journal.read_meta("version")
        if version is None:
            journal.write_meta("version", str(VERSION))
        elif version != str(VERSION):
            raise ValueError(f"journal {path} has version {version}, expected {VERSION}")
        return journal

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def read_meta(self, name: str) -> str | None:
        """Return a stored value, or None."""
        row = self.connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def write_meta(self, name: str, value: str) -> None:
        """Store a value about the data."""
        with self.connection:
            self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def record(self, subject: SourceTable, snapshot_id: int, files: Sequence[tuple[str, pa.Table]]) -> Commit:
        """Record a commit before it is made: its files, and their events in order."""
        commit_no = self._next_commit_no(subject.name)
        commit = Commit(commit_no, snapshot_id, sum(table.num_rows for _, table in files))
        with self.connection:
            self.connection.execute(
                "INSERT INTO commits VALUES (?, ?, ?, ?, 0)",
                (subject.name, commit_no, snapshot_id, commit.events),
            )
            for file_no, (path, table) in enumerate(files):
                self.connection.execute(
                    "INSERT INTO files VALUES (?, ?, ?, ?)", (subject.name, commit_no, file_no, path)
                )
                self.connection.executemany(
                    "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    _event_rows(subject, commit_no, file_no, table),
                )
        return commit

    def confirm_commit(self, subject: SourceTable, commit: Commit) -> None:
        """Record that the changelog contains this commit."""
        with self.connection:
            self.connection.execute(
                "UPDATE commits SET landed = 1 WHERE subject = ? AND commit_no = ?",
                (subject.name, commit.commit_no),
            )

    def resolve_interrupted(self, subject: SourceTable, snapshot_ids: Iterable[int]) -> None:
        """Confirm or remove commits after an interruption, depending on whether the changelog has their snapshot."""
        present = set(snapshot_ids)
        pending = self.connection.execute(
            "SELECT commit_no, snapshot_id FROM commits WHERE subject = ? AND NOT landed", (subject.name,)
        ).fetchall()
        for commit_no, snapshot_id in pending:
            if snapshot_id in present:
                self.confirm_commit(subject, Commit(commit_no, snapshot_id, 0))
            else:
                self._remove(subject.name, commit_no)

    def commits(self, subject: SourceTable) -> list[Commit]:
        """Return all commits on a changelog, oldest first."""
        rows = self.connection.execute(
            "SELECT commit_no, snapshot_id, events FROM commits WHERE subject = ? ORDER BY commit_no",
            (subject.name,),
        )
        return [Commit(*row) for row in rows]

    def files(self, subject: SourceTable, until: JournalPosition) -> list[WrittenFile]:
        """Return the changelog files up to a point, in order."""
        rows = self.connection.execute(
            "SELECT commit_no, file_no, path FROM files "
            "WHERE subject = ? AND (commit_no, file_no) < (?, ?) ORDER BY commit_no, file_no",
            (subject.name, until.commit_no, until.files),
        )
        return [WrittenFile(*row) for row in rows]

    def position_after(
        self, subject: SourceTable, snapshot_id: int | None, files_done: int | None = None
    ) -> JournalPosition:
        """Return the point after a changelog snapshot, or after its first `files_done` files; None: the newest."""
        if snapshot_id is None:
            return JournalPosition(self._next_commit_no(subject.name), 0)
        row = self.connection.execute(
            "SELECT commit_no FROM commits WHERE subject = ? AND snapshot_id = ?", (subject.name, snapshot_id)
        ).fetchone()
        if row is None:
            raise LookupError(
                f"{subject.name}: the journal does not contain changelog snapshot {snapshot_id}"
            )
        return JournalPosition(row[0] + 1, 0) if files_done is None else JournalPosition(row[0], files_done)

    def _next_commit_no(self, subject_name: str) -> int:
        query = "SELECT coalesce(max(commit_no) + 1, 0) FROM commits WHERE subject = ?"
        return int(self.connection.execute(query, (subject_name,)).fetchone()[0])

    def _remove(self, subject_name: str, commit_no: int) -> None:
        with self.connection:
            for table in ("events", "files", "commits"):
                self.connection.execute(
                    f"DELETE FROM {table} WHERE subject = ? AND commit_no = ?",  # noqa: S608
                    (subject_name, commit_no),
                )


def _event_rows(
    subject: SourceTable, commit_no: int, file_no: int, table: pa.Table
) -> Iterable[tuple[str, int, int, int, str, str, bytes, bytes]]:
    operations = table.column(subject.operation).to_pylist()
    sequences = table.column(subject.sequence).to_pylist()
    keys = render_rows(table, subject.key_columns)
    images = render_rows(table, subject.columns)
    for pos, (operation, sequence, key, image) in enumerate(
        zip(operations, sequences, keys, images, strict=True)
    ):
        yield subject.name, commit_no, file_no, pos, operation, sequence, key, image


_REPLAY = """
INSERT INTO temp.winner
SELECT key, sequence, commit_no, file_no, pos, operation FROM events
WHERE subject = :subject AND (commit_no, file_no) < (:commit_no, :files)
ORDER BY commit_no, file_no, pos
ON CONFLICT (key) DO UPDATE SET sequence = excluded.sequence, commit_no = excluded.commit_no,
    file_no = excluded.file_no, pos = excluded.pos, operation = excluded.operation
WHERE (excluded.sequence, excluded.commit_no, excluded.file_no, excluded.pos)
    > (winner.sequence, winner.commit_no, winner.file_no, winner.pos)
"""
_LIVE = """
SELECT key, image FROM temp.winner JOIN events USING (commit_no, file_no, pos, key)
WHERE events.subject = :subject AND winner.operation <> 'DELETE'
"""


def replay_journal(
    connection: sqlite3.Connection, subject: SourceTable, until: JournalPosition
) -> dict[bytes, bytes]:
    """Return key → row of the live rows at a point: the greatest event of a key wins."""
    parameters = {"subject": subject.name, "commit_no": until.commit_no, "files": until.files}
    connection.execute(
        "CREATE TEMP TABLE winner (key BLOB PRIMARY KEY, sequence TEXT, commit_no INTEGER, file_no INTEGER,"
        " pos INTEGER, operation TEXT) WITHOUT ROWID"
    )
    try:
        connection.execute(_REPLAY, parameters)
        return dict(connection.execute(_LIVE, parameters).fetchall())
    finally:
        connection.execute("DROP TABLE temp.winner")
