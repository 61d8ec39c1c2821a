from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from icemirror.cli.demo.watch_process import WatchProcess, end_jobs, running_jobs, stop_old_processes
from icemirror.cli.demo.workspace import DemoMarker, Workspace, prepare_workspace
from icemirror.errors import Invalid, Kind, Transient
from icemirror.processes.process_identity import is_alive
from icemirror.protocol.rows import SlotId, SlotRow, SlotState, TableRow
from icemirror.result import ErrorResult
from icemirror.stores.sqlite import SqliteStore

# Replaces `icemirror`: starts a "job" like the local launcher, and runs until it is ended.
_PROGRAM = """
import pathlib, subprocess, sys, time
from icemirror.processes.process_identity import identify
assert sys.argv[1:3] == ["watch", "-c"]
folder = pathlib.Path(sys.argv[3]).parent
job_program = "import signal as s, time; s.signal(s.SIGTERM, s.{on_term}); print(1, flush=True); time.sleep(60)"
job = subprocess.Popen([sys.executable, "-c", job_program], start_new_session=True, stdout=subprocess.PIPE)
job.stdout.readline()
for name, content in (("runs/default-0-1.run", identify(job.pid)), ("logs/default-0-1.log", "java says no")):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)
time.sleep(60)
"""
_RUNS = (sys.executable, "-c", _PROGRAM.format(on_term="SIG_DFL"))
_STUBBORN = (sys.executable, "-c", _PROGRAM.format(on_term="SIG_IGN"))
_FAILS = (sys.executable, "-c", "print('no Java here'); raise SystemExit(3)")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return prepare_workspace(tmp_path / "demo", keep=False, new_marker=DemoMarker(seed=1, rows=100))


def _wait_for_job(workspace: Workspace) -> str:
    until = time.monotonic() + 20
    while not (jobs := running_jobs(workspace.root)):
        assert time.monotonic() < until
        time.sleep(0.05)
    return jobs[0]


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_no_process_keeps_running(workspace: Workspace, error: type[BaseException] | None) -> None:
    with suppress(KeyboardInterrupt), WatchProcess(workspace, _RUNS) as watch:
        job = _wait_for_job(workspace)
        watch.check()
        assert "java says no" in watch.tail()
        if error is not None:
            raise error
    assert not is_alive(job)
    assert running_jobs(workspace.root) == []


def test_job_that_ignores_sigterm_is_killed(workspace: Workspace) -> None:
    with WatchProcess(workspace, _STUBBORN):
        job = _wait_for_job(workspace)
        end_jobs(workspace.root, timeout_seconds=0.2)
        until = time.monotonic() + 5
        while is_alive(job) and time.monotonic() < until:
            time.sleep(0.05)
        assert not is_alive(job)


def test_processes_of_a_killed_demo_are_ended(workspace: Workspace) -> None:
    killed = WatchProcess(workspace, _RUNS).__enter__()
    job = _wait_for_job(workspace)
    stop_old_processes(workspace.root, timeout_seconds=5)
    assert not is_alive(job)
    with pytest.raises(Transient, match="exit code -15"):
        killed.check()
    killed.__exit__(None, None, None)


def test_ended_job_is_not_running(workspace: Workspace) -> None:
    (workspace.root / "runs").mkdir()
    (workspace.root / "runs" / "default-0-1.run").write_text("1@gone")
    assert running_jobs(workspace.root) == []
    end_jobs(workspace.root, timeout_seconds=0.0)


def test_ended_watch_is_an_error_with_its_log(workspace: Workspace) -> None:
    with (
        WatchProcess(workspace, _FAILS) as watch,
        pytest.raises(Transient, match=r"exit code 3\n[^$]*no Java here"),
    ):
        _check_for_seconds(watch, 20)


def _check_for_seconds(watch: WatchProcess, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        watch.check()
        time.sleep(0.05)


def _store(workspace: Workspace, *rows: TableRow | SlotRow) -> None:
    with SqliteStore(workspace.state) as store:
        assert all(store.compare_and_set(row) for row in rows)


def test_quarantined_table_is_an_error(workspace: Workspace) -> None:
    why = ErrorResult(kind=Kind.INVALID, message="the key is NULL")
    _store(workspace, TableRow("shop.products", quarantined=True, error=why))
    with (
        WatchProcess(workspace, _RUNS) as watch,
        pytest.raises(Invalid, match=r"shop.products .*the key is NULL"),
    ):
        watch.check()


def test_job_state_is_described(workspace: Workspace) -> None:
    with WatchProcess(workspace, _RUNS) as watch:
        assert watch.describe_job(merged=False) == "the trigger polls the changelogs"
        _store(workspace, SlotRow(SlotId("default", 0), SlotState.RUNNING, gen=1))
        assert watch.describe_job(merged=False) == "Spark is starting"
        assert watch.describe_job(merged=True) == "Spark is merging"
