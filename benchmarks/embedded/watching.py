"""`icemirror watch` as a process, as users start it; its jobs are ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Self

from benchmarks.embedded.lake import Commit, Lake
from benchmarks.embedded.sight import Sight
from benchmarks.process import SystemFailed
from icemirror.processes.process_identity import is_alive

_STOP_SECONDS = 30.0
_TAIL_CHARACTERS = 3000


class Watching:
    """A context manager, because neither the trigger nor its jobs must outlive the run."""

    def __init__(self, lake: Lake, patience_seconds: float) -> None:
        self._lake, self._patience_seconds = lake, patience_seconds
        self._log = lake.state_folder / "watch.log"

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "icemirror", "watch", "-c", str(self._lake.settings.source_path)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._end_jobs()

    def jobs(self) -> list[str]:
        """Every job that was launched, by process id and start time."""
        return [record.read_text() for record in sorted((self._lake.state_folder / "runs").glob("*.run"))]

    def reached_at(self, commit: Commit, sight: Sight) -> float:
        """When the mirror came to a commit; `SystemFailed` if it did not in time."""
        at = sight.wait_for(commit, self._patience_seconds)
        if at is None:
            raise SystemFailed(
                f"{commit.table}: a commit was not merged in {self._patience_seconds:.0f} s\n{self._tail()}"
            )
        return at

    def wait_until_no_job_is_left(self) -> None:
        """They leave by themselves when nothing has come for a while."""
        if not self._no_job_is_left(self._patience_seconds):
            raise SystemFailed(f"a job stays although nothing is left to do\n{self._tail()}")

    def _no_job_is_left(self, patience_seconds: float) -> bool:
        give_up = time.monotonic() + patience_seconds
        while any(map(is_alive, self.jobs())):
            if time.monotonic() > give_up:
                return False
            time.sleep(0.1)
        return True

    def _end_jobs(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for run in filter(is_alive, self.jobs()):
                with suppress(ProcessLookupError):
                    os.killpg(int(run.partition("@")[0]), number)
            if self._no_job_is_left(_STOP_SECONDS):
                return

    def _tail(self) -> str:
        """The end of what the trigger and its last job said."""
        logs = sorted((self._lake.state_folder / "logs").glob("*.log"))
        files = [self._log, *logs[-1:]]
        return "\n".join(
            file.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARACTERS:] for file in files
        )
