"""The `replay` command on real tables; the tests act as the worker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from icemirror.cli.commands.replay_wait import wait_for_replay
from icemirror.cli.main import run
from icemirror.cli.terminal.console import open_console
from icemirror.errors import Exit
from icemirror.protocol.events import (
    Dispatch,
    PauseRequested,
    Pick,
    Progressed,
    ReplayRequested,
    Started,
    WorkerId,
)
from icemirror.protocol.policy import Policy
from icemirror.protocol.replay import Replay, ReplayEnd, ReplayProgress
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import SlotId, SlotRow, TableRow
from icemirror.stores.apply import apply
from icemirror.stores.sqlite import SqliteStore
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import ID_AND_NAME, Lab
from tests.unit.icemirror.protocol.samples import INVALID, OPTIONS, TRANSIENT


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab = Lab.make(tmp_path)
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(lab.settings.source_path))
    return lab


def read_json(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    (line,) = capfd.readouterr().out.splitlines()
    report: dict[str, Any] = json.loads(line)
    return report


def table_row(lab: Lab) -> TableRow:
    with SqliteStore(lab.folder / "state.db") as store:
        return store.load(ALL_ROWS).tables["lab.world"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--full", "--since", "2h"],
        ["--from-snapshot", "1", "--since", "2h"],
        ["--full", "--to-snapshot", "1"],
        ["--full", "--dry-run", "--wait"],
        ["--cancel", "--wait"],
        ["--since", "soon"],
        ["--since", "800000d"],
        ["--since", f"{'9' * 400}d"],
        ["--since", "-2h"],
        ["--since", "2999-01-01"],
        ["--from-snapshot", "x"],
    ],
)
def test_bad_usage_exits_with_2_and_requests_nothing(lab: Lab, arguments: list[str]) -> None:
    assert run(["replay", "--table", "lab.world", *arguments]) == 2
    assert not (lab.folder / "state.db").exists()


def test_unknown_table_is_bad_usage(lab: Lab) -> None:
    assert run(["replay", "--table", "lab.other", "--full"]) == 2


def test_dry_run_shows_the_range_and_requests_nothing(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    first, _ = lab.commit_events("I1@1 I2@1"), lab.commit_events("U1@2")
    lab.merge()
    arguments = ["replay", "--table", "lab.world_changelog", "--from-snapshot", str(first), "--dry-run"]
    capfd.readouterr()
    assert run([*arguments, "--json"]) == 0
    plan = read_json(capfd)
    assert (plan["table"], plan["snapshots"], plan["files"], plan["events"]) == ("lab.world", 2, 2, 3)
    assert plan["bytes"] > 0
    assert run(arguments) == 0
    assert f"replays {first} to" in capfd.readouterr().out
    assert run(["replay", "--table", "lab.world", "--full", "--dry-run"]) == 0
    assert "rebuilds the mirror" in capfd.readouterr().out
    assert not (lab.folder / "state.db").exists()


def test_missing_snapshot_exits_with_3_and_requests_nothing(
    lab: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    assert run(["replay", "--table", "lab.world", "--from-snapshot", "7"]) == 3
    assert "has no snapshot 7 in its history" in capfd.readouterr().err.replace("\n", " ")
    assert not (lab.folder / "state.db").exists()


def test_second_request_is_refused_until_the_first_is_cancelled(
    lab: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    first = lab.commit_events("I1@1")
    lab.merge()
    capfd.readouterr()
    assert run(["replay", "--table", "lab.world", "--from-snapshot", str(first), "--json"]) == 0
    requested = read_json(capfd)
    waiting = table_row(lab).replay
    assert waiting is not None
    assert (waiting.id, waiting.from_snapshot) == (requested["replay_id"], first)
    assert (requested["outcome"], requested["plan"]["events"]) == ("asked", 1)
    assert run(["replay", "--table", "lab.world", "--full"]) == 4
    assert "is not done" in capfd.readouterr().err
    assert table_row(lab).replay == waiting
    assert run(["replay", "--table", "lab.world", "--cancel", "--json"]) == 0
    assert read_json(capfd) == {"table": "lab.world", "replay_id": waiting.id, "outcome": "cancelled"}
    assert table_row(lab).replay is None
    assert run(["replay", "--table", "lab.world", "--cancel"]) == 0
    assert run(["replay", "--table", "lab.world", "--full"]) == 0


@pytest.mark.parametrize(
    ("text", "ago"), [("2h", 7200.0), ("90m", 5400.0), ("1d", 86400.0), ("500ms", 0.5), ("3", 3.0)]
)
def test_relative_times_are_accepted(lab: Lab, text: str, ago: float) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    if ago < 10:
        time.sleep(0.01)
    began = time.time()
    code = run(["replay", "--table", "lab.world", "--since", text])
    if code == 3:  # before the only commit
        return
    waiting = table_row(lab).replay
    assert waiting is not None
    assert waiting.since_ms == pytest.approx(1000 * (began - ago), abs=2000)


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
def test_absolute_times_are_utc_unless_they_have_an_offset(lab: Lab, zone: str) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
    assert (
        run(["replay", "--table", "lab.world", "--since", f"{at.replace(tzinfo=None).isoformat()}{zone}"])
        == 0
    )
    waiting = table_row(lab).replay
    assert waiting is not None
    assert waiting.since_ms == int(1000 * at.timestamp()) - (7_200_000 if zone == "+02:00" else 0)


def test_status_shows_the_replay(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    assert run(["replay", "--table", "lab.world", "--full"]) == 0
    capfd.readouterr()
    assert run(["status", "--json"]) == 0
    assert read_json(capfd)["replay"]["full"] is True
    assert run(["status"]) == 0
    assert "rebuild from the whole changelog: waiting" in capfd.readouterr().out


# --- waiting ----------------------------------------------------------------------------------------------

REQUEST = Replay("r1", 1000.0)
POLICY = Policy(quiet_seconds=0.0)


class ScriptedWait:
    """A wait for a replay; at each of its sleeps, the next scripted event happens in the store."""

    def __init__(self, folder: Path, *events: Callable[[SqliteStore], object]) -> None:
        self.store = SqliteStore(folder / "state.db")
        self.events = list(events)
        self.now = 1000.0
        apply(self.store, ReplayRequested(1000.0, "t", OPTIONS, REQUEST), POLICY)

    def sleep(self, _: float) -> None:
        if self.events:
            self.events.pop(0)(self.store)

    def wait(self, *, as_json: bool = True) -> Exit:
        console = open_console(stderr=True, environ={})
        try:
            return wait_for_replay(
                self.store,
                "t",
                REQUEST,
                console,
                as_json=as_json,
                policy=POLICY,
                sleep=self.sleep,
                clock=lambda: self.now,
            )
        finally:
            self.store.close()


def set_row(**fields: object) -> Callable[[SqliteStore], object]:
    def change(store: SqliteStore) -> None:
        current = store.load(ALL_ROWS).tables["t"]
        assert store.compare_and_set(replace(current, **fields))  # type: ignore[arg-type]

    return change


def start_replay(store: SqliteStore) -> None:
    slot = apply(store, Dispatch(1000.0, "default"), POLICY).new_row
    assert isinstance(slot, SlotRow)
    worker = WorkerId(SlotId("default", 0), slot.gen, "run")
    apply(store, Started(1000.0, worker), POLICY)
    apply(store, Pick(1000.0, worker), POLICY)
    apply(store, Progressed(1000.0, worker, "t", None, "r1", ReplayProgress(4, 9)), POLICY)


@pytest.mark.parametrize(
    ("end", "code", "outcome"),
    [
        (ReplayEnd("r1", 1.0, "done", ReplayProgress(9, 9, 2)), 0, "done"),
        (ReplayEnd("r1", 1.0, "failed", error=INVALID), 3, "failed"),
        (ReplayEnd("r1", 1.0, "failed", error=TRANSIENT), 4, "failed"),
        (ReplayEnd("r1", 1.0, "cancelled"), 4, "cancelled"),
        (ReplayEnd("r0", 1.0, "done"), 4, "lost"),
    ],
)
def test_wait_exits_with_the_outcome_of_the_replay(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], end: ReplayEnd, code: int, outcome: str
) -> None:
    scripted = ScriptedWait(tmp_path, start_replay, set_row(replay=None, last_replay=end))
    assert scripted.wait() == code
    assert read_json(capfd)["outcome"] == outcome


def test_wait_for_a_paused_table_exits_with_3_and_advises_resume(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    scripted = ScriptedWait(tmp_path, lambda store: apply(store, PauseRequested(1.0, "t"), POLICY))
    assert scripted.wait(as_json=False) == 3
    shown = capfd.readouterr()
    assert shown.err.splitlines()[-1] == (
        "error: t is paused; the replay is stored and starts after: icemirror resume --table t"
    )
    assert shown.out == ""


def test_wait_counts_one_row_in_the_singular(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    end = ReplayEnd("r1", 1.0, "done", ReplayProgress(1, 1, 1))
    scripted = ScriptedWait(tmp_path, start_replay, set_row(replay=None, last_replay=end))
    assert scripted.wait(as_json=False) == 0
    assert capfd.readouterr().out == "t: done; 1 event, 1 row changed\n"


def test_long_wait_without_a_worker_prints_a_hint(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    idle = [lambda store: None] * 100
    scripted = ScriptedWait(tmp_path, *idle, set_row(replay=None, last_replay=ReplayEnd("r1", 1.0, "done")))
    assert scripted.wait(as_json=False) == 0
    shown = capfd.readouterr()
    assert shown.err.count("is `icemirror watch` running?") == 1
    assert "done; 0 events" in shown.out


def test_wait_without_a_worker_repeats_the_hint_and_continues(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    idle = [lambda store: None] * 1300  # 650 s
    scripted = ScriptedWait(tmp_path, *idle, set_row(replay=None, last_replay=ReplayEnd("r1", 1.0, "done")))
    assert scripted.wait() == 0
    hints = [line for line in capfd.readouterr().err.splitlines() if "no worker" in line]
    assert len(hints) == 3
    assert hints[0] == (
        "t: no worker has taken it yet; is `icemirror watch` running? If not, start it, or run `icemirror sweep`. "
        "Still waiting; Ctrl-C keeps the request"
    )


def test_wait_reports_a_dead_job(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def expire_lease(store: SqliteStore) -> None:
        scripted.now += 1000.0  # longer than a lease

    idle = [lambda store: None] * 100
    scripted = ScriptedWait(
        tmp_path,
        start_replay,
        expire_lease,
        *idle,
        set_row(replay=None, last_replay=ReplayEnd("r1", 1.0, "done")),
    )
    assert scripted.wait() == 0
    assert (
        "t: the job that merged it has died, and no trigger has recovered it; is `icemirror"
        in capfd.readouterr().err
    )


def test_wait_for_a_running_job_prints_no_hint(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    idle = [lambda store: None] * 200
    scripted = ScriptedWait(
        tmp_path, start_replay, *idle, set_row(replay=None, last_replay=ReplayEnd("r1", 1.0, "done"))
    )
    assert scripted.wait() == 0
    assert "Still waiting" not in capfd.readouterr().err


def test_finished_replay_ends_the_wait(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    """`--wait`, with the steps run in this process instead of a worker."""
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    assert run(["replay", "--table", "lab.world", "--full", "--json"]) == 0
    capfd.readouterr()
    waiting = table_row(lab).replay
    assert waiting is not None
    step = replay_step(lab.pipeline, lab.table, waiting)
    while not step.done:
        step = replay_step(lab.pipeline, lab.table, replace(waiting, progress=step.progress))
    with SqliteStore(lab.folder / "state.db") as store:
        current = store.load(ALL_ROWS).tables["lab.world"]
        end = ReplayEnd(waiting.id, 1.0, "done", step.progress)
        assert store.compare_and_set(replace(current, replay=None, last_replay=end))
        console = open_console(stderr=True, environ={})
        assert wait_for_replay(store, "lab.world", waiting, console, as_json=False, policy=POLICY) == 0
    assert "rebuilt from 2 events; it has 2 rows" in capfd.readouterr().out


def test_wait_without_a_terminal_prints_progress_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    idle = [lambda store: None] * 25
    scripted = ScriptedWait(
        tmp_path, start_replay, *idle, set_row(replay=None, last_replay=ReplayEnd("r1", 1.0, "done"))
    )
    assert scripted.wait() == 0
    shown = capfd.readouterr().err.splitlines()
    assert shown == ["t: waiting for a worker", "t: replaying, 4 of 9 events"]


def test_replay_without_a_worker_suggests_the_commands_that_start_one(
    lab: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    assert run(["replay", "--table", "lab.world", "--full"]) == 0
    shown = capfd.readouterr().err
    assert "lab.world: no trigger has checked this table yet; start `icemirror watch`" in shown


def test_advice_to_rebuild_names_the_table(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    lab.catalog.drop_table("lab.world_changelog")
    lab.catalog.create_table("lab.world_changelog", ID_AND_NAME)
    lab = lab.reconfigure("on_truncate: stop")
    command = "`icemirror replay --full --table lab.world`"
    result = lab.try_merge()
    assert result.error is not None
    assert command in result.error.message
    assert run(["plan"]) == 3
    assert command in capfd.readouterr().err


@pytest.mark.parametrize("text", ["1970-01-01", "0001-01-01T00:00"])
def test_times_up_to_1970_mean_the_beginning(lab: Lab, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    assert run(["replay", "--table", "lab.world", "--since", text]) == 0
    waiting = table_row(lab).replay
    assert waiting is not None
    assert waiting.since_ms == 0
    capsys.readouterr()
    assert run(["status", "--json"]) == 0
    assert "1970-01-01" in capsys.readouterr().out
