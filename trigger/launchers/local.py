"""Workers as processes on this machine, which outlive the trigger that started them.

runs/<token>.run      the run id: which process was started for the token
logs/<token>.log      what it writes
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

from icemirror.crash import reach
from icemirror.errors import Invalid, Transient
from icemirror.local_process import identify, is_alive
from icemirror.run_request import RunRequest
from icemirror.safe_path import keep_off_working_directory
from icemirror.state.events import RunState

_MOST_KEPT = 50
_LONGEST_LOG_BYTES = 64 << 20
_SHORTEN_SECONDS = 60.0
_PASSES = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO)
_WORKER = (sys.executable, "-m", "spark_job")


class LocalLauncher:
    """Starts `python -m spark_job --request …` in a session of its own, so that nothing here can end it."""

    def __init__(self, folder: Path, environ: Mapping[str, str], worker: Sequence[str] = _WORKER) -> None:
        self._runs, self._logs = folder / "runs", folder / "logs"
        self._environ, self._worker = environ, worker
        self._children: list[subprocess.Popen[bytes]] = []
        self._shorten_at = 0.0

    def launch(self, request: RunRequest) -> str:
        """Starts the worker, or finds the process that was started for its token.

        A crash between start and record leaves a process that nobody knows; the next launch starts a second one.
        The protocol lets only one of the two take the slot.
        """
        try:
            return self._launch(request)
        except OSError as error:
            raise Transient(f"the worker could not be started: {error}") from error

    def _launch(self, request: RunRequest) -> str:
        record = self._record(request.token)
        with self._alone():
            if (known := self.find(request.token)) is not None:
                return known
            self._forget_old()
            reach("spawn")
            process = self._spawn(request)
            reach("spawned")
            self._children.append(process)
            run_id = identify(process.pid) or f"{process.pid}@gone"
            fresh = record.with_suffix(".new")
            fresh.write_text(run_id)
            fresh.replace(record)
        return run_id

    def find(self, token: str) -> str | None:
        """The process that was started for the token, if one was."""
        try:
            return self._record(token).read_text()
        except FileNotFoundError:
            return None

    def poll(self, run_id: str) -> RunState:
        """Is the process still there?"""
        self._shorten_logs()
        self._children = [child for child in self._children if child.poll() is None]
        return RunState.RUNNING if is_alive(run_id) else RunState.GONE

    def cancel(self, run_id: str) -> None:
        """Ends the worker and what it started, at once: one that hangs would not hear a request."""
        if is_alive(run_id):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(run_id.partition("@")[0]), signal.SIGKILL)

    def log_path(self, token: str) -> Path:
        """The file with the output of a token's run."""
        return self._logs / f"{token}.log"

    def log_of(self, run_id: str) -> str:
        """The log file of the process, by the record of its launch."""
        for record in self._runs.glob("*.run"):
            with suppress(OSError):
                if record.read_text() == run_id:
                    return str(self.log_path(record.stem))
        return ""

    def _record(self, token: str) -> Path:
        return self._runs / f"{token}.run"

    def _spawn(self, request: RunRequest) -> subprocess.Popen[bytes]:
        environ = dict(self._environ)
        keep_off_working_directory(environ)
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
    def _alone(self) -> Iterator[None]:
        """Two triggers on one machine launch one after the other."""
        try:
            for folder in (self._runs, self._logs):
                folder.mkdir(parents=True, exist_ok=True)
            lock = (self._runs / ".lock").open("w")
        except OSError as error:
            if error.errno in _PASSES:
                raise
            raise Invalid(
                f"{self._runs}: cannot be written: {error}. Give trigger.state another path."
            ) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _forget_old(self) -> None:
        """Keeps the latest runs, and the logs of as many."""
        for folder, kind in ((self._runs, "*.run"), (self._logs, "*.log*")):
            for file in sorted(folder.glob(kind), key=_written_at, reverse=True)[_MOST_KEPT:]:
                if folder == self._logs or not is_alive(file.read_text()):
                    file.unlink(missing_ok=True)

    def _shorten_logs(self) -> None:
        """A worker that never rests writes for ever: what is too long is set aside, over what was before.

        The worker goes on writing at the end of the same, emptied file. What it writes in between is lost.
        """
        if time.monotonic() < self._shorten_at:
            return
        self._shorten_at = time.monotonic() + _SHORTEN_SECONDS
        for log in self._logs.glob("*.log"):
            with suppress(OSError):
                if log.stat().st_size > _LONGEST_LOG_BYTES:
                    shutil.copyfile(log, log.with_suffix(".log.1"))
                    os.truncate(log, 0)


def _written_at(file: Path) -> float:
    return file.stat().st_mtime
