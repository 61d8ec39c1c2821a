"""The SQLite file of the state: its schema, whether it is ours, and what its failures mean."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from icemirror.errors import IcemirrorError, Invalid, Transient

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x1CE3144  # tells our file from another one, such as a catalog's
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS state (kind TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL,
        body TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS results (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,
        run_id TEXT NOT NULL, at REAL NOT NULL, body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS results_by_name ON results (name, id)",
    """CREATE TABLE IF NOT EXISTS letters (id TEXT PRIMARY KEY, received_at REAL NOT NULL, body TEXT NOT NULL)
        WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS letters_by_age ON letters (received_at)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
_REFUSED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_ASIDE = "Move the file aside: without it the next sweep finds all that is to be merged"


def open_file(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection to the state, which is made if it is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"the state's folder {path.parent} cannot be made: {error.strerror}") from error
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        if not _looks_ours(connection, path):
            _make(connection, path, busy_seconds)
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def open_to_read(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection that writes nothing, for a state that is there; the file and its folder need not be writable."""
    connection = _read_only(path, "mode=ro", busy_seconds)
    try:
        _looks_ours(connection, path)
    except sqlite3.OperationalError as error:
        connection.close()
        log = path.with_name(f"{path.name}-wal")
        if error.sqlite_errorcode & 0xFF not in _REFUSED or (log.exists() and log.stat().st_size):
            raise
        # SQLite wants to make its log's files even to read; there is no log, so the file has everything.
        connection = _read_only(path, "immutable=1", busy_seconds)
        _looks_ours(connection, path)
    return connection


def _read_only(path: Path, how: str, busy_seconds: float) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{how}"
    return sqlite3.connect(
        address, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False
    )


def file_at(path: Path) -> tuple[int, int] | None:
    """Which file is there, by device and number; None if there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def moved_error(path: Path) -> Invalid:
    """The file is no longer where it was opened."""
    return Invalid(
        f"the state {path} was moved or deleted while it was in use. Put it back and start again. Or start without "
        "it: the next sweep finds all that is to be merged, but which tables were paused, and which replays were asked "
        "for, is forgotten"
    )


def named_error(path: Path, error: sqlite3.Error) -> IcemirrorError:
    """The failure of a statement, named for what to do about it."""
    code = getattr(error, "sqlite_errorcode", None)
    match code if code is None else code & 0xFF:  # the low byte is the primary result code
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Transient(f"the state {path} was locked by another process for too long; try again")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return Invalid(
                f"the state {path} cannot be opened for writing ({error}): it and its folder must be "
                "writable, since SQLite keeps a log beside it"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return Invalid(f"the state {path} is damaged, or no SQLite file ({error}). {_ASIDE}")
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
            return Transient(f"the state {path} could not be read or written ({error}): is the disk full?")
        case _:
            return Transient(f"the state {path} could not be read or written: {error}")


def _looks_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """All in one look: another process may be making the schema at this moment."""
    connection.execute("BEGIN")
    try:
        return _is_ours(connection, path)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """The schema is there, whole; False for an empty file, and for one from before there were letters, or their index.

    A table or an index more needs no new version: releases that do not know it leave it alone.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION_ID and version <= SCHEMA_VERSION:
        newest = "SELECT 1 FROM sqlite_master WHERE name = 'letters_by_age'"
        return connection.execute(newest).fetchone() is not None
    if application == _APPLICATION_ID:
        raise Invalid(
            f"the state {path} has schema {version}, this release knows {SCHEMA_VERSION}: a newer icemirror "
            f"wrote it. Upgrade this one. Or: {_ASIDE.lower()}"
        )
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or tables:
        raise Invalid(f"{path} is the database of another program: give the state a file of its own")
    return False


def _make(connection: sqlite3.Connection, path: Path, busy_seconds: float) -> None:
    _use_write_ahead_log(connection, busy_seconds)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_ours(connection, path):  # another process may have been quicker
            for statement in _SCHEMA:
                connection.execute(statement)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _use_write_ahead_log(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """SQLite does not wait for a lock when it changes the journal's mode, so wait here."""
    give_up_at = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(0.02)
        else:
            return
