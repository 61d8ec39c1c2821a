"""The SQLite store: conformance, and all unusable files."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from icemirror.errors import Invalid, Transient
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import TableRow
from icemirror.stores.dead_letters import new_letter
from icemirror.stores.sqlite import LETTER_AGES, SqliteStore
from icemirror.stores.sqlite_file import classify_error
from icemirror.stores.stored_json import dump_row
from tests.processes.stores.store_suite import OpenStore, StoreSuite
from tests.unit.icemirror.stores.stored_rows import SLOT_ROW, STORED, TABLE


class TestSqliteStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> Iterator[None]:
        self.path = tmp_path / "state" / "icemirror.db"
        yield
        # No test leaves a connection open: the file can be locked exclusively.
        with closing(sqlite3.connect(self.path, timeout=0.1)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")

    def opener(self) -> OpenStore:
        return partial(SqliteStore, self.path, kept_results=self.KEPT_RESULTS, kept_letters=self.KEPT_LETTERS)


def open_and_close(path: Path) -> None:
    SqliteStore(path).close()


def write_and_die(path: Path) -> None:
    SqliteStore(path).compare_and_set(TableRow("t", dirty=1))
    os.kill(os.getpid(), signal.SIGKILL)


def test_many_processes_can_create_the_file_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    path = tmp_path / "s.db"
    openers = [context.Process(target=open_and_close, args=(path,)) for _ in range(4)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join()
    assert [opener.exitcode for opener in openers] == [0] * 4


def test_file_that_another_process_is_creating_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, connect = tmp_path / "s.db", sqlite3.connect

    class SlowConnection(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if arguments[0] == "PRAGMA user_version" and path.stat().st_size == 0:
                monkeypatch.setattr(sqlite3, "connect", connect)
                with suppress(Transient, sqlite3.OperationalError):  # it may have to wait for this store
                    SqliteStore(path, busy_seconds=0.1).close()
            return super().execute(*arguments)

    monkeypatch.setattr(sqlite3, "connect", partial(connect, factory=SlowConnection))
    with SqliteStore(path) as store:
        assert store.compare_and_set(TableRow("t", dirty=1))


def test_killed_writer_leaves_a_usable_file(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    child = multiprocessing.get_context("spawn").Process(target=write_and_die, args=(path,))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    with SqliteStore(path) as store:
        assert store.load(ALL_ROWS).tables["t"].dirty == 1


def test_file_that_is_no_database_is_reported_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"this is no database, but long enough to be taken for one" * 100)
    with pytest.raises(
        Invalid, match=r"the state is damaged or not a SQLite file.*Delete or move the file.*s\.db"
    ):
        SqliteStore(path)


def test_damaged_database_is_reported_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        for number in range(200):
            store.compare_and_set(TableRow(f"table_{number}"))
    body = bytearray(path.read_bytes())
    body[4096:] = b"\xa5" * (len(body) - 4096)
    path.write_bytes(body)
    with pytest.raises(Invalid, match="Delete or move the file"), SqliteStore(path) as store:
        store.load(ALL_ROWS)


def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE iceberg_tables (a)")
    with pytest.raises(Invalid, match="another program's database"):
        SqliteStore(path)


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    open_and_close(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(Invalid, match=r"schema 99.*Upgrade"):
        SqliteStore(path)


def test_file_without_letters_gains_them_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        store.compare_and_set(TableRow("t", dirty=1))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE letters")
    letter = new_letter("sqs", "no such table", 1.0, "event")
    with SqliteStore(path) as store:
        store.put_letter(letter)
        assert (store.letters(), store.load(ALL_ROWS).tables["t"].dirty) == ((letter,), 1)


def test_ages_of_letters_are_read_without_their_bodies(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    open_and_close(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX letters_by_age")  # a file of an older release
    open_and_close(path)
    with closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {LETTER_AGES}").fetchall()
    assert ["COVERING INDEX letters_by_age" in str(step) for step in plan] == [True]


def test_locked_database_is_transient(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    open_and_close(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with (
            SqliteStore(path, busy_seconds=0.05) as store,
            pytest.raises(Transient, match="locked by another process"),
        ):
            store.compare_and_set(TableRow("t"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with pytest.raises(Invalid, match=r"writable|cannot create"):
        SqliteStore(folder / "s.db")


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (sqlite3.SQLITE_READONLY, Invalid, "make the file and its folder writable"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, Invalid, "make the file and its folder writable"),
        (sqlite3.SQLITE_FULL, Transient, "is the disk full"),
        (sqlite3.SQLITE_IOERR_WRITE, Transient, "is the disk full"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, Transient, "try again"),
        (sqlite3.SQLITE_MISUSE, Transient, "words of SQLite"),
        (sqlite3.SQLITE_NOMEM, Transient, "cannot read or write"),
    ],
)
def test_failures_have_a_remedy(code: int, kind: type[Exception], words: str) -> None:
    error = sqlite3.OperationalError("words of SQLite")
    error.sqlite_errorcode = code
    classified = classify_error(Path("s.db"), error)
    assert type(classified) is kind
    assert words in str(classified)


def test_path_below_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Invalid, match="cannot create"):
        SqliteStore(tmp_path / "file" / "s.db")


def test_folder_instead_of_the_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot open the state for writing"):
        SqliteStore(tmp_path)


def test_result_of_another_release_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    open_and_close(path)
    with closing(sqlite3.connect(path)) as connection:
        sql = "INSERT INTO results (name, run_id, at, body) VALUES ('t', 'r', 1, ?)"
        connection.execute(sql, ['{"table": "t", "shape": "unknown"}'])
        connection.commit()
    with SqliteStore(path) as store:
        page = store.results_since("")
        assert (page.results, page.cursor) == ((), "1")


def put_row(path: Path, kind: str, key: str, body: str) -> None:
    open_and_close(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO state VALUES (?, ?, 1, ?)", (kind, key, body))
        connection.commit()


def test_rows_that_version_1_wrote_still_load(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    put_row(path, "table", TABLE.name, json.dumps(STORED["table"]))
    put_row(path, "slot", str(SLOT_ROW.id), json.dumps(STORED["slot"]))
    with SqliteStore(path) as store:
        rows = store.load(ALL_ROWS)
        assert (rows.tables, rows.slots) == ({TABLE.name: TABLE}, {SLOT_ROW.id: SLOT_ROW})
        assert store.compare_and_set(rows.tables[TABLE.name])


@pytest.mark.parametrize(("body", "words"), [('{"version": 2, "name": "t"}', "Upgrade"), ("{", "damaged")])
def test_newer_or_damaged_row_is_reported(tmp_path: Path, body: str, words: str) -> None:
    put_row(tmp_path / "s.db", "table", "t", body)
    with SqliteStore(tmp_path / "s.db") as store, pytest.raises(Invalid, match=words):
        store.load(ALL_ROWS)


def test_state_is_read_in_a_read_only_folder(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SqliteStore(path) as store:
        assert store.compare_and_set(TableRow("shop.orders", dirty=1))
        store.put_letter(new_letter("sqs", "r", 1.0, "event"))
    with SqliteStore(path, read_only=True) as store:
        assert store.load(ALL_ROWS).tables["shop.orders"].dirty == 1
        assert [letter.body for letter in store.letters()] == ["event"]
        with pytest.raises(Invalid, match="cannot open the state for writing"):
            store.compare_and_set(TableRow("shop.items"))


def _read_as_other_user(path: Path) -> None:
    if os.geteuid() == 0:
        os.setuid(65534)
    with SqliteStore(path, read_only=True) as store:
        assert "shop.orders" in store.load(ALL_ROWS).tables


def test_state_is_read_in_a_folder_of_another_user() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with SqliteStore(folder / "state.db") as store:
            assert store.compare_and_set(TableRow("shop.orders", dirty=1))
        (folder / "state.db").chmod(0o444)
        folder.chmod(0o555)
        child = multiprocessing.get_context("spawn").Process(
            target=_read_as_other_user, args=(folder / "state.db",)
        )
        child.start()
        child.join(60)
        folder.chmod(0o755)
        assert child.exitcode == 0


def _move(path: Path) -> None:
    path.rename(path.with_name("aside.db"))


def _replace(path: Path) -> None:
    open_and_close(path.with_name("new.db"))
    path.with_name("new.db").replace(path)


@pytest.mark.parametrize("change", [Path.unlink, _move, _replace])
def test_state_moved_or_deleted_while_in_use_is_no_longer_written(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        assert store.compare_and_set(TableRow("t", dirty=1))
        change(path)
        for request in (
            lambda: store.load(ALL_ROWS),
            lambda: store.compare_and_set(TableRow("u", dirty=1)),
            lambda: store.put_letter(new_letter("sqs", "r", 1.0, "event")),
        ):
            with pytest.raises(Invalid, match=r"moved or deleted while in use\. Restore it .*s\.db"):
                request()


def test_moved_state_holds_all_earlier_writes_and_can_be_restored(tmp_path: Path) -> None:
    path, moved = tmp_path / "s.db", tmp_path / "aside.db"
    with SqliteStore(path) as store:
        assert store.compare_and_set(TableRow("t", paused=True))
        path.rename(moved)
        with pytest.raises(Invalid, match="moved"):
            store.load(ALL_ROWS)
    moved.rename(path)
    with SqliteStore(path) as store:
        assert store.load(ALL_ROWS).tables["t"].paused


def test_write_during_a_move_does_not_count_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:

        def dump_and_unlink(row: TableRow) -> str:
            path.unlink()
            return dump_row(row)

        monkeypatch.setattr("icemirror.stores.sqlite.dump_row", dump_and_unlink)
        with pytest.raises(Invalid, match="moved or deleted"):
            store.compare_and_set(TableRow("t", dirty=1))


def test_changed_working_directory_keeps_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SqliteStore(Path("s.db")) as store:
        monkeypatch.chdir("/")
        assert store.compare_and_set(TableRow("t", dirty=1))
        assert store.load(ALL_ROWS).tables["t"].dirty == 1
