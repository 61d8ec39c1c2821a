"""The state's SQLite file: its schema, the check that it belongs to icemirror, and its errors."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from icemirror.errors import IcemirrorError, Invalid, Transient

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x1CE3144  # distinguishes the state file from other databases, such as a catalog's
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
_DELETE_FILE = "Delete or move the file; the next sweep finds all pending work"


def open_for_writing(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """Open the state for writing; create it if it does not exist."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"cannot create the state's folder ({error.strerror}): {path.parent}") from error
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        if not _check_in_transaction(connection, path):
            _create_schema(connection, path, busy_seconds)
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def open_read_only(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """Open an existing state for reading; neither the file nor its folder need be writable."""
    connection = _connect_read_only(path, "mode=ro", busy_seconds)
    try:
        _check_in_transaction(connection, path)
    except sqlite3.OperationalError as error:
        connection.close()
        log_file = path.with_name(f"{path.name}-wal")
        if error.sqlite_errorcode & 0xFF not in _REFUSED or (log_file.exists() and log_file.stat().st_size):
            raise
        # SQLite creates the files of its log even to read. There is no log, so the file is complete without them.
        connection = _connect_read_only(path, "immutable=1", busy_seconds)
        _check_in_transaction(connection, path)
    return connection


def _connect_read_only(path: Path, mode: str, busy_seconds: float) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{mode}"
    return sqlite3.connect(
        address, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False
    )


def read_device_and_inode(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file at this path; None if there is none."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def moved_error(path: Path) -> Invalid:
    """Return the error for a file that is no longer where it was opened."""
    return Invalid(
        "the state file was moved or deleted while in use. Restore it and start again. Or start without it: the next "
        f"sweep finds all pending work, but pauses and requested replays are lost. File: {path}"
    )


def classify_error(path: Path, error: sqlite3.Error) -> IcemirrorError:
    """Return the failure of a statement as an error with its remedy."""
    code = getattr(error, "sqlite_errorcode", None)
    match code if code is None else code & 0xFF:  # the low byte is the primary result code
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Transient(f"the state was locked by another process for too long; try again. File: {path}")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return Invalid(
                f"cannot open the state for writing ({error}): make the file and its folder writable, because SQLite "
                f"keeps a log in that folder. File: {path}"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return Invalid(
                f"the state is damaged or not a SQLite file ({error}). {_DELETE_FILE}. File: {path}"
            )
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
            return Transient(f"cannot read or write the state ({error}): is the disk full? File: {path}")
        case _:
            return Transient(f"cannot read or write the state ({error}); try again. File: {path}")


def _check_in_transaction(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the schema is complete, read in one transaction: another process may be creating it."""
    connection.execute("BEGIN")
    try:
        return _is_complete(connection, path)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_complete(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the schema is complete: False for an empty file and for one without all tables and indexes.

    An additional table or index needs no new version: older releases ignore it.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION_ID and version <= SCHEMA_VERSION:
        newest_part = "SELECT 1 FROM sqlite_master WHERE name = 'letters_by_age'"
        return connection.execute(newest_part).fetchone() is not None
    if application == _APPLICATION_ID:
        raise Invalid(
            f"a newer icemirror wrote the state: it has schema {version}, this release knows {SCHEMA_VERSION}. Upgrade "
            f"this icemirror. Or: {_DELETE_FILE.lower()}. File: {path}"
        )
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or tables:
        raise Invalid(
            f"the file is another program's database: use a separate file for the state. File: {path}"
        )
    return False


def _create_schema(connection: sqlite3.Connection, path: Path, busy_seconds: float) -> None:
    _use_write_ahead_log(connection, busy_seconds)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_complete(connection, path):  # another process may have created it first
            for statement in _SCHEMA:
                connection.execute(statement)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _use_write_ahead_log(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Switch to a write-ahead log. SQLite does not wait for a lock when it changes the mode, so wait here."""
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
