"""Workers as processes on this machine, which outlive the trigger that started them.

runs/<token>.run      the run id: the process that was started for the token
logs/<token>.log      its output
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from icemirror.errors import Invalid, Transient
from icemirror.processes.crash_points import crash_point
from icemirror.processes.process_identity import identify, is_alive
from icemirror.processes.python_path import exclude_working_directory
from icemirror.protocol.events import RunState
from icemirror.protocol.run_request import RunRequest

_MAX_RUNS_KEPT = 50
_MAX_LOG_BYTES = 64 << 20
_ROTATE_SECONDS = 60.0
_TRANSIENT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO)
_WORKER = (sys.executable, "-m", "spark_job")


class LocalLauncher:
    """Starts `python -m spark_job --request …` in a new session, so that it survives the trigger."""

    def __init__(self, folder: Path, environ: Mapping[str, str], worker: Sequence[str] = _WORKER) -> None:
        self._runs, self._logs = folder / "runs", folder / "logs"
        self._environ, self._worker = environ, worker
        self._children: list[subprocess.Popen[bytes]] = []
        self._rotate_at = 0.0

    def launch(self, request: RunRequest) -> str:
        """Start the worker, or find the process that was started for its token.

        A crash between start and record leaves an unrecorded process; the next launch starts a second one. The
        protocol lets only one of the two take the slot.
        """
        try:
            return self._launch(request)
        except OSError as error:
            raise Transient(f"the worker could not be started: {error}") from error

    def _launch(self, request: RunRequest) -> str:
        record = self._record_path(request.token)
        with self._launch_lock():
            if (recorded_run_id := self.find(request.token)) is not None:
                return recorded_run_id
            self._delete_old_runs()
            crash_point("spawn")
            process = self._spawn(request)
            crash_point("spawned")
            self._children.append(process)
            run_id = identify(process.pid) or f"{process.pid}@ended"
            temporary = record.with_suffix(".new")
            temporary.write_text(run_id)
            temporary.replace(record)
        return run_id

    def find(self, token: str) -> str | None:
        """Return the process that was started for the token, if there is one."""
        try:
            return self._record_path(token).read_text()
        except FileNotFoundError:
            return None

    def poll(self, run_id: str) -> RunState:
        """Return whether the process still runs."""
        self._rotate_logs()
        self._children = [child for child in self._children if child.poll() is None]
        return RunState.RUNNING if is_alive(run_id) else RunState.ENDED

    def cancel(self, run_id: str) -> None:
        """Kill the worker and its children: a worker that hangs would not react to a request."""
        if is_alive(run_id):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(run_id.partition("@")[0]), signal.SIGKILL)

    def log_path(self, token: str) -> Path:
        """Return the file with the output of a token's run."""
        return self._logs / f"{token}.log"

    def log_location(self, run_id: str) -> str:
        """Return the log file of the process, found by the record of its launch."""
        for record in self._runs.glob("*.run"):
            with suppress(OSError):
                if record.read_text() == run_id:
                    return str(self.log_path(record.stem))
        return ""

    def _record_path(self, token: str) -> Path:
        return self._runs / f"{token}.run"

    def _spawn(self, request: RunRequest) -> subprocess.Popen[bytes]:
        environ = dict(self._environ)
        exclude_working_directory(environ)
        with self.log_path(request.token).open("ab") as log:
            return subprocess.Popen(
                [*self._worker, "--request", request.model_dump_json()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ,
                start_new_session=True,
            )

    @contextmanager
    def _launch_lock(self) -> Iterator[None]:
        """Let two triggers on one machine launch one after the other."""
        try:
            for folder in (self._runs, self._logs):
                folder.mkdir(parents=True, exist_ok=True)
            lock = (self._runs / ".lock").open("w")
        except OSError as error:
            if error.errno in _TRANSIENT_ERRORS:
                raise
            raise Invalid(
                f"the folder of runs cannot be written; give trigger.state another path: {error}"
            ) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _delete_old_runs(self) -> None:
        """Delete all but the latest runs and as many logs."""
        for folder, pattern in ((self._runs, "*.run"), (self._logs, "*.log*")):
            for file in sorted(folder.glob(pattern), key=_modified_at, reverse=True)[_MAX_RUNS_KEPT:]:
                if folder == self._logs or not is_alive(file.read_text()):
                    file.unlink(missing_ok=True)

    def _rotate_logs(self) -> None:
        """Rotate long logs, since a busy worker may write forever; one old log is kept.

        The worker continues to write to the same, truncated file. What it writes in between is lost.
        """
        if time.monotonic() < self._rotate_at:
            return
        self._rotate_at = time.monotonic() + _ROTATE_SECONDS
        for log in self._logs.glob("*.log"):
            with suppress(OSError):
                if log.stat().st_size > _MAX_LOG_BYTES:
                    shutil.copyfile(log, log.with_suffix(".log.1"))
                    os.truncate(log, 0)


def _modified_at(file: Path) -> float:
    return file.stat().st_mtime
