"""Local processes: the conformance suite. Their specifics are in test_local_launcher.py."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icemirror.processes.process_identity import identify
from tests.processes.trigger.test_local_launcher import JOB, wait_for
from tests.unit.trigger.launchers.launcher_suite import LauncherSuite, Platform
from trigger.launchers.local import LocalLauncher


class OnThisMachine(Platform):
    """Real processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launchers: list[LocalLauncher] = []

    def launcher(self) -> LocalLauncher:
        self.launchers.append(
            LocalLauncher(self.folder, {**os.environ, "FAKE_JOB_FOLDER": str(self.folder)}, JOB)
        )
        return self.launchers[-1]

    def begun(self) -> list[list[str]]:
        return [[words[2].split(" ")[0], words[2].split(" ", 1)[1]] for words in self._started()]

    def begin(self, run_id: str) -> None:
        wait_for(lambda: any(words[0] == run_id.partition("@")[0] for words in self._started()))

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
def platform(tmp_path: Path) -> Iterator[OnThisMachine]:
    platform = OnThisMachine(tmp_path)
    yield platform
    platform.close()


class TestLocal(LauncherSuite):
    """The suite."""


def test_the_job_that_is_started_is_this_python() -> None:
    assert JOB[0] == sys.executable
