"""Workers as processes on this machine: one per token, and alive without their trigger."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icemirror.errors import Invalid, Transient
from icemirror.processes.process_identity import identify, is_alive
from icemirror.processes.run_request import RunRequest
from icemirror.protocol.events import RunState
from trigger.launchers import local
from trigger.launchers.local import LocalLauncher

JOB = (sys.executable, str(Path(__file__).parent / "fake_job.py"))
REQUEST = RunRequest(group="default", slot=0, gen=7, config="/etc/icemirror.yaml")


def wait_for(what: Callable[[], object], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.01)


class Place:
    """A folder with launchers, and the jobs that they started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launchers: list[LocalLauncher] = []

    def launcher(self, **environ: str) -> LocalLauncher:
        given = {**os.environ, "FAKE_JOB_FOLDER": str(self.folder), **environ}
        self.launchers.append(LocalLauncher(self.folder, given, JOB))
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
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.end()


def test_a_job_gets_its_request_a_session_and_a_log(place: Place) -> None:
    run_id = place.launcher().launch(REQUEST)
    wait_for(place.started)
    ((pid, session, arguments),) = place.started()
    assert (session, run_id) == (pid, identify(int(pid)))
    assert json.loads(arguments.removeprefix("--request ")) == REQUEST.model_dump()
    log = (place.folder / "logs" / "default-0-7.log").read_text()
    assert f"hello from {pid}" in log
    assert "and from stderr" in log


def test_token_is_launched_once_by_any_number_of_triggers(place: Place) -> None:
    one, other = place.launcher(), place.launcher()
    run_id = one.launch(REQUEST)
    assert one.launch(REQUEST) == other.launch(REQUEST) == run_id
    assert other.find(REQUEST.token) == run_id
    assert other.find("default-0-8") is None
    wait_for(place.started)
    time.sleep(0.2)
    assert len(place.started()) == 1


def test_a_run_is_running_until_its_process_ends_also_as_an_unfetched_child(place: Place) -> None:
    parent, stranger = place.launcher(), place.launcher()
    run_id = parent.launch(REQUEST)
    wait_for(place.started)
    assert parent.poll(run_id) is stranger.poll(run_id) is RunState.RUNNING
    os.kill(int(place.started()[0][0]), signal.SIGKILL)
    wait_for(lambda: stranger.poll(run_id) is RunState.ENDED)
    assert parent.poll(run_id) is RunState.ENDED
    assert parent.launch(REQUEST) == run_id, "a token that ran is not launched again"
    assert len(place.started()) == 1


def test_job_that_dies_at_once_is_gone(place: Place) -> None:
    launcher = place.launcher(FAKE_JOB_DIES="1")
    run_id = launcher.launch(REQUEST)
    wait_for(lambda: launcher.poll(run_id) is RunState.ENDED)


def test_other_process_with_the_same_id_is_not_the_run(place: Place) -> None:
    launcher = place.launcher()
    run_id = launcher.launch(REQUEST)
    pid = run_id.partition("@")[0]
    assert launcher.poll(f"{pid}@some-other-start") is RunState.ENDED
    assert launcher.poll("garbage") is RunState.ENDED


def test_a_run_that_hangs_is_ended_with_all_that_it_started(place: Place) -> None:
    launcher = place.launcher()
    run_id = launcher.launch(REQUEST)
    wait_for(place.started)
    launcher.cancel(run_id)
    wait_for(lambda: launcher.poll(run_id) is RunState.ENDED)
    launcher.cancel(run_id)


def test_the_log_of_a_run_is_found_by_the_record_of_its_launch(place: Place) -> None:
    launcher = place.launcher()
    run_id = launcher.launch(REQUEST)
    assert launcher.log_location(run_id) == str(place.folder / "logs" / "default-0-7.log")
    assert launcher.log_location("1@2") == ""


def test_files_in_the_working_directory_do_not_shadow_the_jobs_modules(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = place.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "dis.py").write_text("raise SystemExit('a stranger was imported')")
    monkeypatch.chdir(elsewhere)
    worker = (sys.executable, "-c", "import dis; print('found', dis.__file__)")
    launcher = LocalLauncher(place.folder, os.environ, worker)
    run_id = launcher.launch(REQUEST)
    wait_for(lambda: launcher.poll(run_id) is RunState.ENDED)
    log = launcher.log_path(REQUEST.token).read_text()
    assert "found" in log
    assert str(elsewhere) not in log


def test_a_job_outlives_the_trigger_that_was_killed(place: Place) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path;"
        "from icemirror.processes.run_request import RunRequest;"
        "from trigger.launchers.local import LocalLauncher;"
        "folder, job, request = sys.argv[1:];"
        "launcher = LocalLauncher(Path(folder), os.environ, (sys.executable, job));"
        "launcher.launch(RunRequest.model_validate_json(request));"
        "os.killpg(0, signal.SIGKILL)"
    )
    trigger = subprocess.run(
        [sys.executable, "-c", script, str(place.folder), JOB[1], REQUEST.model_dump_json()],
        env={**os.environ, "FAKE_JOB_FOLDER": str(place.folder)},
        start_new_session=True,
        check=False,
    )
    assert trigger.returncode == -signal.SIGKILL
    later = place.launcher()
    run_id = later.find(REQUEST.token)
    assert run_id is not None
    assert later.poll(run_id) is RunState.RUNNING
    wait_for(place.started)


def test_old_records_and_logs_are_forgotten_but_not_those_of_living_runs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_MAX_RUNS_KEPT", 3)
    launcher = place.launcher()
    living = launcher.launch(REQUEST)
    for folder, name in (("runs", "old-{}.run"), ("logs", "old-{}.log")):
        for number in range(6):
            file = place.folder / folder / name.format(number)
            file.write_text("1@0")
            os.utime(file, (number + 1, number + 1))
    os.utime(place.folder / "runs" / "default-0-7.run", (0, 0))
    launcher.launch(REQUEST.model_copy(update={"gen": 8}))
    assert launcher.find("default-0-7") == living
    assert {file.name for file in (place.folder / "runs").glob("old*")} == {
        "old-3.run",
        "old-4.run",
        "old-5.run",
    }
    assert (place.folder / "runs" / ".lock").exists()
    assert len(list((place.folder / "logs").iterdir())) <= 4


def test_a_log_that_grows_without_end_is_set_aside(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_MAX_LOG_BYTES", 10)
    launcher = place.launcher()
    run_id = launcher.launch(REQUEST)
    wait_for(lambda: "stderr" in launcher.log_path(REQUEST.token).read_text())
    assert launcher.poll(run_id) is RunState.RUNNING
    assert launcher.log_path(REQUEST.token).read_text() == ""
    assert "stderr" in (place.folder / "logs" / "default-0-7.log.1").read_text()


def test_a_job_that_cannot_be_started_is_transient_and_may_be_tried_again(place: Place) -> None:
    broken = LocalLauncher(place.folder, os.environ, ("/no/such/program",))
    with pytest.raises(Transient, match="could not be started"):
        broken.launch(REQUEST)
    assert broken.find(REQUEST.token) is None
    assert place.launcher().launch(REQUEST)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(Invalid, match="cannot be written"):
        LocalLauncher(tmp_path, os.environ, JOB).launch(REQUEST)


def test_an_identity_is_that_of_a_living_process_only() -> None:
    mine = identify(os.getpid())
    assert mine is not None
    assert is_alive(mine)
    child = subprocess.Popen([sys.executable, "-c", ""])
    wait_for(lambda: identify(child.pid) is None)  # ended, and not fetched yet
    child.wait()
    assert identify(child.pid) is None
