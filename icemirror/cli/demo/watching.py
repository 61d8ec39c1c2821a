"""The watch as a child process, and an end to it and to the Spark job that it launched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from icemirror.cli.demo.jobs import end_jobs, newest_job_log, note_watch
from icemirror.cli.demo.workspace import Workspace
from icemirror.errors import Invalid, Transient
from icemirror.safe_path import keep_off_working_directory
from icemirror.state.reads import EVERYTHING
from icemirror.state.rows import Rows, SlotState
from icemirror.state.sqlite import SqliteStore

_ICEMIRROR = (sys.executable, "-m", "icemirror")
_TAIL_LINES = 25
_END_SECONDS = 15.0
_INTERRUPTED_SECONDS = 3.0
_JOB_IN_WORDS = {
    SlotState.FREE: "no Spark job is needed",
    SlotState.LAUNCHING: "Spark is starting",
    SlotState.RUNNING: "Spark is merging",
    SlotState.LINGERING: "Spark waits for more",
}


class Watch:
    """Runs `icemirror watch` beside the demo; at the end of the context nothing of it runs any more."""

    def __init__(self, workspace: Workspace, program: Sequence[str] = _ICEMIRROR) -> None:
        self._workspace = workspace
        self._command = [*program, "watch", "-c", str(workspace.config)]
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self._log = self._workspace.watch_log.open("ab")
        environ = dict(os.environ)
        keep_off_working_directory(environ)
        # A session of its own: a Ctrl-C is for the demo, which then ends the watch in order.
        self._child = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )
        note_watch(self._workspace.root, self._child.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C must not leave anything behind; all waits here are short.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._end(_END_SECONDS if kind is None else _INTERRUPTED_SECONDS)
        finally:
            signal.signal(signal.SIGINT, before)

    def check(self) -> None:
        """Raises if the watch has ended, or if a table or the job has been given up."""
        if self._child is not None and self._child.poll() is not None:
            raise Transient(f"`icemirror watch` ended with exit code {self._child.returncode}\n{self.tail()}")
        rows = self._rows()
        for table in rows.tables.values():
            if table.quarantined and table.error is not None:
                raise Invalid(f"{table.name} was given up: {table.error.message}\n{self.tail()}")
        for slot in rows.slots.values():
            if slot.quarantined:
                raise Invalid(f"the Spark job was given up: {slot.error}\n{self.tail()}")

    def describe_job(self, *, merged: bool) -> str:
        """What the Spark job is doing, in words; until something is merged, Spark may still be starting."""
        states = [slot.state for slot in self._rows().slots.values()]
        if not states:
            return "the watch looks at the changelogs"
        starting = states[0] is SlotState.RUNNING and not merged
        return _JOB_IN_WORDS[SlotState.LAUNCHING if starting else states[0]]

    def tail(self) -> str:
        """The last lines of what the watch and the newest job said."""
        return "\n".join(f"--- {log}\n{_last_lines(log)}" for log in self._logs())

    def _rows(self) -> Rows:
        if not self._workspace.state.exists():
            return Rows({}, {})
        with SqliteStore(self._workspace.state) as store:
            return store.load(EVERYTHING)

    def _logs(self) -> list[Path]:
        job_log = newest_job_log(self._workspace.root)
        return [self._workspace.watch_log] + ([job_log] if job_log else [])

    def _end(self, patience_seconds: float) -> None:
        if self._child is not None:
            self._child.terminate()
            try:
                self._child.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        # The watch leaves a running job to finish; the demo does not.
        end_jobs(self._workspace.root, patience_seconds)
        if self._log is not None:
            self._log.close()


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
