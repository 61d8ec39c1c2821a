"""`kill -9` at every crash point of the trigger and of the worker: the next run completes the work.

Real processes on a toy lake. Nothing is merged twice or lost, every slot becomes free, and every job ends.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icemirror.errors import Exit
from icemirror.processes.process_identity import identify
from icemirror.protocol.events import ReplayRequested, SchedulingOptions
from icemirror.protocol.replay import Replay
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import Rows, SlotState
from icemirror.protocol.worker import Phase
from icemirror.stores.apply import apply
from icemirror.stores.sqlite import SqliteStore
from tests.sim.protocol.toy_lake import NAMES, POLICY, ToyLake
from tests.sim.protocol.trigger_process import watch

ROOT = Path(__file__).parents[3]
TRIGGER = Path(__file__).parent / "trigger_process.py"
TRIGGER_POINTS = ["notice", "noticed", "dispatch", "dispatched", "launch", "spawn", "spawned", "launched"]
TRIGGER_POINTS += ["recorded"]
RECOVERY_POINTS = ["recover", "recovered", "release-table", "table-released"]
WORKER_POINTS = [f"worker-{phase}{end}" for phase in Phase if phase is not Phase.END for end in ("", "-done")]


class Scene:
    """A lake, and the trigger and workers on it."""

    def __init__(self, folder: Path) -> None:
        self.lake = ToyLake(folder)
        self.lake.create()
        self.environ = dict(os.environ)

    def watch(self, *, crash: str | None = None, worker_crash: str | None = None) -> int:
        """Run a trigger until idle or, in a separate process, until it dies."""
        if crash is None:
            return watch(self.lake, worker_crash)
        environ = self.environ | {"ICEMIRROR_CRASH_AT": crash}
        arguments = [
            sys.executable,
            str(TRIGGER),
            str(self.lake.folder),
            *([worker_crash] if worker_crash else []),
        ]
        return subprocess.run(arguments, env=environ, timeout=60, check=False).returncode

    def workers(self, what: str) -> set[int]:
        file = self.lake.folder / "workers"
        found = re.findall(rf"{what} (\d+)", file.read_text()) if file.exists() else []
        return {int(pid) for pid in found}

    def wait_for_workers(self) -> None:
        until = time.monotonic() + 30
        while any(identify(pid) for pid in self.workers("began")):
            assert time.monotonic() < until, "a worker does not end"
            time.sleep(0.02)

    def killed(self) -> set[int]:
        return self.workers("began") - self.workers("ended")

    def rows(self) -> Rows:
        with SqliteStore(self.lake.folder / "state.db") as store:
            return store.load(ALL_ROWS)

    def request_replay(self, name: str) -> None:
        with SqliteStore(self.lake.folder / "state.db") as store:
            apply(
                store,
                ReplayRequested(time.time(), name, SchedulingOptions(), Replay("r1", time.time())),
                POLICY,
            )

    def check_final_state(self) -> None:
        """Run once more without faults, then check mirrors, tables and slots."""
        self.lake.commit(NAMES[0])
        assert self.watch() == Exit.DONE
        self.wait_for_workers()
        for name in NAMES:
            assert self.lake.merged(name) == list(range(1, self.lake.head(name) + 1))
        rows = self.rows()
        assert all(row.dirty == row.covered and row.owner is None for row in rows.tables.values())
        assert all(row.replay is None for row in rows.tables.values())
        assert all(row.failures == 0 and row.error is None for row in rows.tables.values())
        assert [slot.state for slot in rows.slots.values()] == [SlotState.FREE]
        assert not any(slot.quarantined for slot in rows.slots.values())


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    scene = Scene(tmp_path)
    for name in (*NAMES, NAMES[0]):
        scene.lake.commit(name)
    return scene


def test_without_a_crash_one_worker_serves_both_tables(scene: Scene) -> None:
    assert scene.watch() == Exit.DONE
    scene.wait_for_workers()
    assert (len(scene.workers("began")), scene.killed()) == (1, set())
    scene.check_final_state()


@pytest.mark.parametrize("point", TRIGGER_POINTS)
def test_killed_trigger_is_replaced(scene: Scene, point: str) -> None:
    assert scene.watch(crash=point) == -signal.SIGKILL
    assert scene.watch() == Exit.DONE
    scene.check_final_state()
    assert scene.killed() == set()


@pytest.mark.parametrize("point", RECOVERY_POINTS)
def test_trigger_killed_while_recovering_a_killed_worker_is_replaced(scene: Scene, point: str) -> None:
    assert scene.watch(crash=point, worker_crash="worker-merge-done") == -signal.SIGKILL
    assert scene.watch() == Exit.DONE
    scene.check_final_state()
    assert len(scene.killed()) == 1


@pytest.mark.parametrize("point", WORKER_POINTS)
def test_killed_worker_is_replaced(scene: Scene, point: str) -> None:
    if "fail" in point:
        (scene.lake.folder / "trouble").touch()
    if "replayed" in point:
        scene.request_replay(NAMES[0])
    if "decline" in point:
        (scene.lake.folder / "old").touch()
    assert scene.watch(worker_crash=point) == Exit.DONE
    scene.wait_for_workers()
    assert len(scene.killed()) == 1, "the crash point was not reached"
    scene.check_final_state()


def test_every_crash_point_of_trigger_and_worker_is_tested() -> None:
    sources = [*(ROOT / "trigger").rglob("*.py"), ROOT / "spark_job" / "worker" / "worker.py"]
    points = {
        point for source in sources for point in re.findall(r'crash_point\("([^"]+)"\)', source.read_text())
    }
    assert points == {*TRIGGER_POINTS, *RECOVERY_POINTS, "worker-merge", "worker-merge-done"}
