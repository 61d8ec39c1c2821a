"""Workers as processes on this machine: one per token, independent of their trigger."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from icemirror.errors import Invalid, Transient
from icemirror.processes.process_identity import identify, is_alive
from icemirror.protocol.events import RunState
from icemirror.protocol.run_request import RunRequest
from tests.processes.trigger.local_jobs import JOB, wait_for
from trigger.launchers import local
from trigger.launchers.local import LocalLauncher

REQUEST = RunRequest(group="default", slot=0, gen=7, config="/etc/icemirror.yaml")


class LocalJobs:
    """A folder with launchers, and the jobs that they started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launchers: list[LocalLauncher] = []

    def launcher(self, **environ: str) -> LocalLauncher:
        environment = {**os.environ, "FAKE_JOB_FOLDER": str(self.folder), **environ}
        self.launchers.append(LocalLauncher(self.folder, environment, JOB))
        return self.launchers[-1]

    def started(self) -> list[list[str]]:
        file = self.folder / "started"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.split(" ", 2) for line in lines]

    def end(self) -> None:
        (self.folder / "end").touch()
        for launcher in self.launchers:
            for child in launcher._children:
                child.wait(20)
        wait_for(lambda: not any(identify(int(pid)) for pid, _, _ in self.started()))


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[LocalJobs]:
    jobs = LocalJobs(tmp_path)
    yield jobs
    jobs.end()


def test_job_gets_its_request_a_session_and_a_log(jobs: LocalJobs) -> None:
    run_id = jobs.launcher().launch(REQUEST)
    wait_for(jobs.started)
    ((pid, session, arguments),) = jobs.started()
    assert (session, run_id) == (pid, identify(int(pid)))
    assert json.loads(arguments.removeprefix("--request ")) == REQUEST.model_dump()
    log = (jobs.folder / "logs" / "default-0-7.log").read_text()
    assert f"hello from {pid}" in log
    assert "and from stderr" in log


def test_token_is_launched_once_by_any_number_of_triggers(jobs: LocalJobs) -> None:
    first, second = jobs.launcher(), jobs.launcher()
    run_id = first.launch(REQUEST)
    assert first.launch(REQUEST) == second.launch(REQUEST) == run_id
    assert second.find(REQUEST.token) == run_id
    assert second.find("default-0-8") is None
    wait_for(jobs.started)
    time.sleep(0.2)
    assert len(jobs.started()) == 1


def test_run_is_running_until_its_process_ends_even_as_a_zombie(jobs: LocalJobs) -> None:
    parent, unrelated = jobs.launcher(), jobs.launcher()
    run_id = parent.launch(REQUEST)
    wait_for(jobs.started)
    assert parent.poll(run_id) is unrelated.poll(run_id) is RunState.RUNNING
    os.kill(int(jobs.started()[0][0]), signal.SIGKILL)
    wait_for(lambda: unrelated.poll(run_id) is RunState.ENDED)
    assert parent.poll(run_id) is RunState.ENDED
    assert parent.launch(REQUEST) == run_id, "a token that ran is not launched again"
    assert len(jobs.started()) == 1


def test_job_that_dies_at_once_has_ended(jobs: LocalJobs) -> None:
    launcher = jobs.launcher(FAKE_JOB_DIES="1")
    run_id = launcher.launch(REQUEST)
    wait_for(lambda: launcher.poll(run_id) is RunState.ENDED)


def test_other_process_with_the_same_id_is_not_the_run(jobs: LocalJobs) -> None:
    launcher = jobs.launcher()
    run_id = launcher.launch(REQUEST)
    pid = run_id.partition("@")[0]
    assert launcher.poll(f"{pid}@some-other-start") is RunState.ENDED
    assert launcher.poll("garbage") is RunState.ENDED


def test_hanging_run_is_cancelled(jobs: LocalJobs) -> None:
    launcher = jobs.launcher()
    run_id = launcher.launch(REQUEST)
    wait_for(jobs.started)
    launcher.cancel(run_id)
    wait_for(lambda: launcher.poll(run_id) is RunState.ENDED)
    launcher.cancel(run_id)


def test_log_of_a_run_is_found_by_its_run_id(jobs: LocalJobs) -> None:
    launcher = jobs.launcher()
    run_id = launcher.launch(REQUEST)
    assert launcher.log_location(run_id) == str(jobs.folder / "logs" / "default-0-7.log")
    assert launcher.log_location("1@2") == ""


def test_files_in_the_working_directory_do_not_shadow_the_jobs_modules(
    jobs: LocalJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = jobs.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "dis.py").write_text("raise SystemExit('a stranger was imported')")
    monkeypatch.chdir(elsewhere)
    worker = (sys.executable, "-c", "import dis; print('found', dis.__file__)")
    launcher = LocalLauncher(jobs.folder, os.environ, worker)
    run_id = launcher.launch(REQUEST)
    wait_for(lambda: launcher.poll(run_id) is RunState.ENDED)
    log = launcher.log_path(REQUEST.token).read_text()
    assert "found" in log
    assert str(elsewhere) not in log


def test_job_outlives_a_killed_trigger(jobs: LocalJobs) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path;"
        "from icemirror.protocol.run_request import RunRequest;"
        "from trigger.launchers.local import LocalLauncher;"
        "folder, job, request = sys.argv[1:];"
        "launcher = LocalLauncher(Path(folder), os.environ, (sys.executable, job));"
        "launcher.launch(RunRequest.model_validate_json(request));"
        "os.killpg(0, signal.SIGKILL)"
    )
    trigger = subprocess.run(
        [sys.executable, "-c", script, str(jobs.folder), JOB[1], REQUEST.model_dump_json()],
        env={**os.environ, "FAKE_JOB_FOLDER": str(jobs.folder)},
        start_new_session=True,
        check=False,
    )
    assert trigger.returncode == -signal.SIGKILL
    later = jobs.launcher()
    run_id = later.find(REQUEST.token)
    assert run_id is not None
    assert later.poll(run_id) is RunState.RUNNING
    wait_for(jobs.started)


def test_old_records_and_logs_are_deleted_except_for_running_jobs(
    jobs: LocalJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_MAX_RUNS_KEPT", 3)
    launcher = jobs.launcher()
    running = launcher.launch(REQUEST)
    for folder, name in (("runs", "old-{}.run"), ("logs", "old-{}.log")):
        for number in range(6):
            file = jobs.folder / folder / name.format(number)
            file.write_text("1@0")
            os.utime(file, (number + 1, number + 1))
    os.utime(jobs.folder / "runs" / "default-0-7.run", (0, 0))
    launcher.launch(REQUEST.model_copy(update={"gen": 8}))
    assert launcher.find("default-0-7") == running
    assert {file.name for file in (jobs.folder / "runs").glob("old*")} == {
        "old-3.run",
        "old-4.run",
        "old-5.run",
    }
    assert (jobs.folder / "runs" / ".lock").exists()
    assert len(list((jobs.folder / "logs").iterdir())) <= 4


def test_large_log_is_rotated(jobs: LocalJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_MAX_LOG_BYTES", 10)
    launcher = jobs.launcher()
    run_id = launcher.launch(REQUEST)
    wait_for(lambda: "stderr" in launcher.log_path(REQUEST.token).read_text())
    assert launcher.poll(run_id) is RunState.RUNNING
    assert launcher.log_path(REQUEST.token).read_text() == ""
    assert "stderr" in (jobs.folder / "logs" / "default-0-7.log.1").read_text()


def test_job_that_cannot_be_started_is_transient_and_can_be_retried(jobs: LocalJobs) -> None:
    broken = LocalLauncher(jobs.folder, os.environ, ("/no/such/program",))
    with pytest.raises(Transient, match="could not be started"):
        broken.launch(REQUEST)
    assert broken.find(REQUEST.token) is None
    assert jobs.launcher().launch(REQUEST)


def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(Invalid, match="cannot be written"):
        LocalLauncher(tmp_path, os.environ, JOB).launch(REQUEST)


def test_only_a_live_process_has_an_identity() -> None:
    mine = identify(os.getpid())
    assert mine is not None
    assert is_alive(mine)
    child = subprocess.Popen([sys.executable, "-c", ""])
    wait_for(lambda: identify(child.pid) is None)  # ended, but not reaped yet
    child.wait()
    assert identify(child.pid) is None
