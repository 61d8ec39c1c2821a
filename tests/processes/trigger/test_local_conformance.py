"""The conformance suite with the local launcher; test_local_launcher.py tests the rest."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icemirror.processes.process_identity import identify
from tests.processes.trigger.local_jobs import JOB, wait_for
from tests.unit.trigger.launchers.launcher_suite import LauncherSuite, Platform
from trigger.launchers.local import LocalLauncher


class LocalPlatform(Platform):
    """Jobs as real processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launchers: list[LocalLauncher] = []

    def launcher(self) -> LocalLauncher:
        self.launchers.append(
            LocalLauncher(self.folder, {**os.environ, "FAKE_JOB_FOLDER": str(self.folder)}, JOB)
        )
        return self.launchers[-1]

    def started(self) -> list[list[str]]:
        return [[fields[2].split(" ")[0], fields[2].split(" ", 1)[1]] for fields in self._started()]

    def start(self, run_id: str) -> None:
        wait_for(lambda: any(fields[0] == run_id.partition("@")[0] for fields in self._started()))

    def end(self, run_id: str) -> None:
        (self.folder / "end").touch()
        wait_for(lambda: identify(int(run_id.partition("@")[0])) != run_id)

    def kill(self, run_id: str) -> None:
        os.kill(int(run_id.partition("@")[0]), signal.SIGKILL)

    def wait_for(self, what: Callable[[], bool]) -> None:
        wait_for(what)

    def close(self) -> None:
        (self.folder / "end").touch()
        for launcher in self.launchers:
            for child in launcher._children:
                child.wait(20)

    def _started(self) -> list[list[str]]:
        file = self.folder / "started"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.split(" ", 2) for line in lines]


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[LocalPlatform]:
    platform = LocalPlatform(tmp_path)
    yield platform
    platform.close()


class TestLocal(LauncherSuite):
    """Runs the suite."""


def test_fake_job_runs_with_this_python() -> None:
    assert JOB[0] == sys.executable
