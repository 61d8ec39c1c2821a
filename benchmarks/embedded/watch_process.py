"""`icemirror watch` as a process, as users start it; its jobs end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Self

from benchmarks.embedded.commit_poller import CommitPoller
from benchmarks.embedded.lake import Commit, Lake
from benchmarks.process import SystemFailed
from icemirror.processes.process_identity import is_alive

_STOP_SECONDS = 30.0
_TAIL_CHARACTERS = 3000


class WatchProcess:
    """Runs `icemirror watch` in a `with` block, so that neither the trigger nor its jobs outlive the run."""

    def __init__(self, lake: Lake, timeout_seconds: float) -> None:
        self._lake, self._timeout_seconds = lake, timeout_seconds
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
        """Return every launched job, by process id and start time."""
        return [record.read_text() for record in sorted((self._lake.state_folder / "runs").glob("*.run"))]

    def reached_at(self, commit: Commit, poller: CommitPoller) -> float:
        """Wait for a commit and return when the mirror contained it; raise `SystemFailed` on a timeout."""
        reached = poller.wait_for(commit, self._timeout_seconds)
        if reached is None:
            raise SystemFailed(
                f"{commit.table}: a commit was not merged in {self._timeout_seconds:.0f} s\n{self._tail()}"
            )
        return reached

    def wait_until_jobs_end(self) -> None:
        """Wait until all jobs have ended, which they do after their linger time."""
        if not self._jobs_ended(self._timeout_seconds):
            raise SystemFailed(f"a job did not end although nothing is left to do\n{self._tail()}")

    def _jobs_ended(self, timeout_seconds: float) -> bool:
        deadline = time.monotonic() + timeout_seconds
        while any(map(is_alive, self.jobs())):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def _end_jobs(self) -> None:
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for run in filter(is_alive, self.jobs()):
                with suppress(ProcessLookupError):
                    os.killpg(int(run.partition("@")[0]), signal_number)
            if self._jobs_ended(_STOP_SECONDS):
                return

    def _tail(self) -> str:
        """Return the end of the logs of the trigger and its last job."""
        logs = sorted((self._lake.state_folder / "logs").glob("*.log"))
        files = [self._log, *logs[-1:]]
        return "\n".join(
            file.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARACTERS:] for file in files
        )
