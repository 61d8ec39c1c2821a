"""Runs `icemirror watch` as a child process, and ends it together with the Spark jobs that it launched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from icemirror.cli.demo.workspace import Workspace
from icemirror.errors import Invalid, Transient
from icemirror.processes.process_identity import identify, is_alive
from icemirror.processes.python_path import exclude_working_directory
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import Rows, SlotState
from icemirror.stores.sqlite import SqliteStore

_POLL_SECONDS = 0.1
_WATCH_PID_FILE = "watch.pid"


def running_jobs(folder: Path) -> list[str]:
    """Return the identities (`pid@start`) of running jobs; `folder` contains the trigger's state."""
    identities = (record.read_text() for record in sorted((folder / "runs").glob("*.run")))
    return [identity for identity in identities if is_alive(identity)]


def newest_job_log(folder: Path) -> Path | None:
    """Return the log of the latest job, if there was one."""
    logs = sorted((folder / "logs").glob("*.log"), key=lambda log: log.stat().st_mtime)
    return logs[-1] if logs else None


def record_watch(folder: Path, pid: int) -> None:
    """Record the watch process, so that a later demo can end it."""
    (folder / _WATCH_PID_FILE).write_text(identify(pid) or "")


def stop_old_processes(folder: Path, timeout_seconds: float) -> None:
    """End the processes of a demo that was killed."""
    record = folder / _WATCH_PID_FILE
    if record.exists() and is_alive(identity := record.read_text()):
        with suppress(ProcessLookupError):
            os.kill(_pid(identity), signal.SIGTERM)
        deadline = time.monotonic() + timeout_seconds
        while is_alive(identity) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    end_jobs(folder, timeout_seconds)


def end_jobs(folder: Path, timeout_seconds: float) -> None:
    """Request every job to end after its current slice; kill those that do not."""
    # A job leads a process group that includes Spark's JVM.
    jobs = [(identity, _pid(identity)) for identity in running_jobs(folder)]
    for _, pid in jobs:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_seconds
    for identity, pid in jobs:
        while (is_alive(identity) or _has_members(pid)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _pid(identity: str) -> int:
    return int(identity.partition("@")[0])


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


_ICEMIRROR = (sys.executable, "-m", "icemirror")
_TAIL_LINES = 25
_END_SECONDS = 15.0
_INTERRUPTED_SECONDS = 3.0
_JOB_STATES = {
    SlotState.FREE: "no Spark job is needed",
    SlotState.LAUNCHING: "Spark is starting",
    SlotState.RUNNING: "Spark is merging",
    SlotState.LINGERING: "Spark is idle",
}


class WatchProcess:
    """Runs `icemirror watch` in the background; the end of the context ends it and its jobs."""

    def __init__(self, workspace: Workspace, program: Sequence[str] = _ICEMIRROR) -> None:
        self._workspace = workspace
        self._command = [*program, "watch", "-c", str(workspace.config)]
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self._log = self._workspace.watch_log.open("ab")
        environ = dict(os.environ)
        exclude_working_directory(environ)
        # A separate session: Ctrl-C reaches only the demo, which then stops the watch cleanly.
        self._child = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )
        record_watch(self._workspace.root, self._child.pid)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C must not leave a process running; all waits here are short.
        old_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._end(_END_SECONDS if error_type is None else _INTERRUPTED_SECONDS)
        finally:
            signal.signal(signal.SIGINT, old_handler)

    def check(self) -> None:
        """Raise if the watch has ended, or a table or the job is quarantined."""
        if self._child is not None and self._child.poll() is not None:
            raise Transient(f"`icemirror watch` ended with exit code {self._child.returncode}\n{self.tail()}")
        rows = self._rows()
        for table in rows.tables.values():
            if table.quarantined and table.error is not None:
                raise Invalid(f"{table.name} is quarantined: {table.error.message}\n{self.tail()}")
        for slot in rows.slots.values():
            if slot.quarantined:
                raise Invalid(f"the Spark job is quarantined: {slot.error}\n{self.tail()}")

    def describe_job(self, *, merged: bool) -> str:
        """Return the state of the Spark job as text; before the first merge, a running job is starting Spark."""
        states = [slot.state for slot in self._rows().slots.values()]
        if not states:
            return "the trigger polls the changelogs"
        starting = states[0] is SlotState.RUNNING and not merged
        return _JOB_STATES[SlotState.LAUNCHING if starting else states[0]]

    def tail(self) -> str:
        """Return the last lines of the logs of the watch and the newest job."""
        return "\n".join(f"--- {log}\n{_last_lines(log)}" for log in self._logs())

    def _rows(self) -> Rows:
        if not self._workspace.state.exists():
            return Rows({}, {})
        with SqliteStore(self._workspace.state) as store:
            return store.load(ALL_ROWS)

    def _logs(self) -> list[Path]:
        job_log = newest_job_log(self._workspace.root)
        return [self._workspace.watch_log] + ([job_log] if job_log else [])

    def _end(self, timeout_seconds: float) -> None:
        if self._child is not None:
            self._child.terminate()
            try:
                self._child.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        # The watch lets a running job finish; the demo does not.
        end_jobs(self._workspace.root, timeout_seconds)
        if self._log is not None:
            self._log.close()


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
