"""The commands `watch`, `sweep`, `status`, `pause` and `resume`, without a job."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.cli.main import run
from icemirror.cli.terminal.console import open_console
from icemirror.errors import Kind
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import SlotId, SlotRow, TableRow
from icemirror.result import ErrorResult
from icemirror.stores.sqlite import SqliteStore
from tests.unit.icemirror.cli.trigger_state import CONFIG, create_catalog, merged, put, tables
from tests.unit.icemirror.protocol.samples import INVALID, RUN, dirty, owned
from trigger.launchers.local import LocalLauncher
from trigger.tables.registry import TableRegistry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "icemirror.yaml").write_text(CONFIG.format(folder=tmp_path))
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(tmp_path / "icemirror.yaml"))
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield tmp_path
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(number, handler)


def test_watch_exits_with_3_and_names_a_missing_changelog(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    create_catalog(folder, "orders_changelog")
    put(folder, merged("shop.orders"))
    assert run(["watch", "--until-idle"]) == 3
    shown = capfd.readouterr().err
    assert "shop.items: there is no changelog shop.items_changelog" in shown.replace("\n", " ")
    assert "error: shop.orders" not in shown


def test_watch_exits_with_0_if_all_tables_are_merged(folder: Path) -> None:
    create_catalog(folder, "orders_changelog", "items_changelog")
    put(folder, merged("shop.orders"), merged("shop.items"))
    assert run(["watch", "--until-idle"]) == 0


def test_watch_of_a_blocked_table_exits_with_3_and_prints_the_remedy(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    create_catalog(folder, "orders_changelog", "items_changelog")
    bad = dirty("shop.orders", quarantined=True, error=INVALID, noticed_head="m1")
    put(folder, bad, merged("shop.items"))
    assert run(["watch", "--until-idle"]) == 3
    shown = capfd.readouterr().err
    assert "a key is NULL" in shown
    assert "icemirror resume --table shop.orders" in shown


def test_remedy_names_the_configuration_file_and_the_table_once(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    create_catalog(folder, "orders_changelog", "items_changelog")
    error = ErrorResult(kind=Kind.INVALID, message="shop.orders: a key is NULL")
    put(folder, dirty("shop.orders", quarantined=True, error=error, noticed_head="m1"), merged("shop.items"))
    config = folder / "icemirror.yaml"
    assert run(["watch", "--until-idle", "-c", str(config)]) == 3
    shown = capfd.readouterr().err
    assert "error: shop.orders: a key is NULL" in shown
    assert f"icemirror resume -c {config} --table shop.orders" in shown


def test_watch_without_a_terminal_logs_its_start(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    create_catalog(folder, "orders_changelog", "items_changelog")
    put(folder, merged("shop.orders"), merged("shop.items"))
    assert run(["watch", "--until-idle"]) == 0
    shown = capfd.readouterr().err
    assert "watching" in shown
    assert "tables=2" in shown


def test_sweep_prints_the_progress_of_the_tables(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    create_catalog(folder, "orders_changelog")
    put(folder, merged("shop.orders"))
    assert run(["sweep"]) == 3
    shown = capfd.readouterr()
    assert shown.out.strip() == "2 tables: 1 blocked, 1 current"
    assert "error: shop.items: there is no changelog shop.items_changelog" in shown.err


def test_sweep_reports_a_table_without_a_job_as_not_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = folder / "icemirror.yaml"
    config.write_text(config.read_text().replace("quiet_period: 10ms", "quiet_period: 0s"))
    create_catalog(folder, "orders_changelog", "items_changelog")
    put(folder, replace(merged("shop.items"), paused=True))
    monkeypatch.setattr(LocalLauncher, "launch", lambda *_: "run-1")
    assert run(["sweep"]) == 0
    shown = capfd.readouterr()
    assert shown.out == "2 tables: 1 not checked yet, 1 paused; 1 worker launched\n"


def test_sweep_of_a_missing_catalog_exits_with_4(folder: Path) -> None:
    assert run(["sweep"]) == 4


def test_sweep_reports_an_unreachable_catalog_regardless_of_the_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    put(folder, merged("shop.orders"), TableRow("shop.items", dirty=1, noticed_head="m1", paused=True))
    monkeypatch.setattr(TableRegistry, "poll_heads", lambda *_: {})
    assert run(["sweep"]) == 4
    shown = capfd.readouterr()
    assert shown.out.strip() == "2 tables: 2 gave-up"
    errors = [line for line in shown.err.splitlines() if line.startswith("error:")]
    assert errors == [
        f"error: shop.{name}: its catalog has not responded yet" for name in ("orders", "items")
    ]


def test_status_is_one_json_object_per_table_and_creates_no_state(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--json"]) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [status["table"] for status in found] == ["shop.orders", "shop.items"]
    assert {status["state"] for status in found} == {"waiting"}
    assert all("SQLite file does not exist" in status["error"]["message"] for status in found)
    assert not (folder / "state").exists()


def test_status_shows_state_and_error(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(folder, dirty("shop.orders", quarantined=True, error=INVALID, noticed_head="m1"))
    assert run(["status"]) == 0
    shown = capfd.readouterr().out
    assert "blocked" in shown
    assert "a key is NULL" in shown
    assert "after fixing it: icemirror resume --table shop.orders" in shown


@pytest.mark.parametrize("columns", ["60", "80", "160"])
def test_status_has_one_line_per_table_and_errors_below(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    console = open_console(stderr=False, environ={"COLUMNS": columns})
    for module in ("commands.status", "terminal.console"):
        monkeypatch.setattr(f"icemirror.cli.{module}.out", console)
    put(folder, replace(merged("shop.orders"), last_run=RUN), dirty("shop.items", error=INVALID))
    assert run(["status"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["table", "shop.orders", "shop.items"]
    assert all(len(line) <= int(columns) for line in lines[:3])
    assert "shop.items: a key is NULL" in lines, "errors are not wrapped in a pipe"
    assert not any("…" in line or line.endswith(" ") for line in lines)


def test_status_distinguishes_blocked_and_quarantined_tables(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    transient = ErrorResult(kind=Kind.TRANSIENT, message="the storage did not respond")
    put(
        folder,
        dirty("shop.orders", quarantined=True, failures=1, error=INVALID, noticed_head="m1"),
        dirty("shop.items", quarantined=True, failures=5, error=transient, noticed_head="m1"),
    )
    assert run(["status"]) == 0
    shown = capfd.readouterr().out
    states = {line.split()[0]: line.split()[1] for line in shown.splitlines()[1:3]}
    assert states == {"shop.orders": "blocked", "shop.items": "quarantined"}
    for name in states:
        assert f"after fixing it: icemirror resume --table {name}" in shown


def test_status_of_selected_tables(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(folder, merged("shop.orders"), merged("shop.items"))
    for arguments in (["-t", "shop.items"], ["--match", "*.items"]):
        assert run(["status", "--json", *arguments]) == 0
        (line,) = capfd.readouterr().out.splitlines()
        assert json.loads(line)["table"] == "shop.items"
    assert run(["status", "-t", "shop.items", "--match", "*"]) == 2
    assert run(["status", "-t", "shop.item"]) == 2
    assert "did you mean shop.items?" in capfd.readouterr().err


def test_resume_lifts_quarantines_of_tables_and_slots(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    slot = SlotRow(SlotId("default", 0), quarantined=True, failures=5, not_before=1e12)
    put(folder, dirty("shop.orders", quarantined=True, failures=5, error=INVALID), slot)
    assert run(["resume", "--match", "shop.o*"]) == 0
    assert "shop.orders" in capfd.readouterr().out
    row = tables(folder)["shop.orders"]
    assert (row.quarantined, row.failures, row.error) == (False, 0, None)
    with SqliteStore(folder / "state" / "state.db") as store:
        assert not store.load(ALL_ROWS).slots[slot.id].quarantined


def test_resume_accepts_several_tables_and_checks_their_mirrors(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stopped = dirty("shop.items", quarantined=True, failures=5, error=INVALID)
    put(folder, merged("shop.orders"), stopped)
    assert run(["resume", "-t", "shop.orders", "-t", "shop.items"]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "shop.orders: was not stopped; the next round compares its mirror with its changelog",
        "shop.items: resumed",
    ]
    found = tables(folder)
    assert not found["shop.items"].quarantined
    assert all(row.dirty > row.covered for row in found.values())


def test_resume_reports_a_table_without_a_row(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["resume", "-t", "shop.orders"]) == 0
    assert "no trigger has checked it yet" in capfd.readouterr().out


def test_paused_table_gets_no_work_until_it_is_resumed(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    create_catalog(folder, "orders_changelog", "items_changelog")
    put(folder, dirty("shop.orders"), owned("shop.items"))
    assert run(["pause", "--match", "shop.*"]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "shop.orders: paused",
        "shop.items: paused; the running job stops after its current slice",
    ]
    assert all(row.paused for row in tables(folder).values())
    assert run(["pause", "-t", "shop.orders"]) == 0
    assert capfd.readouterr().out == "shop.orders: was already paused\n"
    assert run(["resume", "-t", "shop.orders"]) == 0
    assert not tables(folder)["shop.orders"].paused


def test_table_can_be_paused_before_its_first_poll(folder: Path) -> None:
    assert run(["pause", "-t", "shop.orders"]) == 0
    create_catalog(folder, "orders_changelog", "items_changelog")
    put(folder, merged("shop.items"))
    assert run(["sweep"]) == 0
    row = tables(folder)["shop.orders"]
    assert (row.paused, row.dirty, row.covered, row.owner) == (True, 1, 0, None)


def test_paused_table_is_shown_with_the_command_that_resumes_it(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    create_catalog(folder, "orders_changelog", "items_changelog")
    put(folder, dirty("shop.orders", paused=True, noticed_head="m1"), merged("shop.items"))
    for command, code in ((["sweep"], 0), (["watch", "--until-idle"], 3)):
        assert run(command) == code
        shown = capfd.readouterr()
        assert "shop.orders: paused" in shown.err
        assert "error" not in shown.err
        assert "to continue: icemirror resume --table shop.orders" in shown.err
        assert shown.out.strip() == ("2 tables: 1 current, 1 paused" if command == ["sweep"] else "")
    assert run(["status", "--json"]) == 0
    states = [json.loads(line)["state"] for line in capfd.readouterr().out.splitlines()]
    assert states[0] == "paused"


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "either --table or --match"),
        (["--table", "a", "--match", "b"], 2, "either --table or --match"),
        (["--table", "shop.order"], 2, "did you mean shop.orders"),
        (["--match", "sales.*"], 2, "no table matches"),
    ],
)
def test_pause_and_resume_refuse_invalid_table_arguments(
    folder: Path, capfd: pytest.CaptureFixture[str], command: str, arguments: list[str], code: int, words: str
) -> None:
    assert run([command, *arguments]) == code
    assert words in capfd.readouterr().err.replace("\n", " ")
