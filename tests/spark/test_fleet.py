"""Commits from end to end: noticed, coalesced, launched as a real Spark job and merged, with killed processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icemirror.processes.crash_points import CRASH_VARIABLE
from icemirror.processes.process_identity import is_alive
from spark_job.engine.engine import InProcessEngine
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule

_EXTRA_CONFIG = """
job: {linger: 1s, spark_from_events: 0, spark: {spark.master: "local[2]"}}
telemetry: {prometheus: null}
"""
_TIMEOUT_SECONDS = 180


@pytest.fixture
def world(tmp_path: Path) -> MirroredWorld:
    options = "min_interval: 0s"
    schedule = Schedule(seed=77, key="string", largest_commit=300)
    world = MirroredWorld.make(
        tmp_path, schedule, InProcessEngine(), options=options, extra_config=_EXTRA_CONFIG, use_duckdb=False
    )
    world.oracle.commit_many(2)
    return world


def _watch(world: MirroredWorld, *arguments: str, crash_at: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "icemirror", "watch", "-c", str(world.settings.source_path), *arguments]
    environ = {**os.environ, CRASH_VARIABLE: crash_at}
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)


def _until_idle(world: MirroredWorld) -> None:
    watch = _watch(world, "--until-idle")
    _, stderr = watch.communicate(timeout=_TIMEOUT_SECONDS)
    assert watch.returncode == 0, f"{stderr}\n{_job_log(world)}"


def _folder(world: MirroredWorld) -> Path:
    return world.settings.source_path.parent


def _job_log(world: MirroredWorld) -> str:
    return "\n".join(path.read_text()[-3000:] for path in (_folder(world) / "logs").glob("*.log"))


def _workers(world: MirroredWorld) -> list[str]:
    return [path.read_text() for path in (_folder(world) / "runs").glob("*.run")]


def _wait_until_workers_end(world: MirroredWorld) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while any(is_alive(run) for run in _workers(world)):
        assert time.monotonic() < deadline, "a worker is still running"
        time.sleep(0.2)


def _check(world: MirroredWorld) -> None:
    verdicts = world.oracle.verdicts_of_history(world.mirror)
    for snapshot_id, verdict in verdicts.items():
        assert verdict.equal, f"snapshot {snapshot_id}: {verdict}"
    head = world.oracle.changelog.table.refresh().current_snapshot()
    snapshot = world.mirror.current_snapshot()
    assert head is not None
    assert snapshot is not None
    assert snapshot.summary is not None
    cursor = json.loads(snapshot.summary.additional_properties["icemirror.cursor"])
    assert cursor["sources"][0]["snapshot_id"] == head.snapshot_id
    _wait_until_workers_end(world)


def test_commit_reaches_the_mirror_and_no_worker_stays(world: MirroredWorld) -> None:
    _until_idle(world)
    world.oracle.commit_many(2)
    _until_idle(world)
    _check(world)


def test_next_process_continues_after_a_killed_one(world: MirroredWorld) -> None:
    """Each process starts from the state that a killed one left; only the last one is not killed."""
    for point in ("worker-start-done", "root-written", "committed", "worker-complete"):
        _kill_a_job(world, point)
        world.oracle.commit_many(2)
    for point in ("noticed", "launched"):
        watch = _watch(world, crash_at=point)
        watch.communicate(timeout=_TIMEOUT_SECONDS)
        assert watch.returncode == -signal.SIGKILL, f"{point} was not reached"
        _wait_until_workers_end(world)
        world.oracle.commit_many(2)
    _until_idle(world)
    _check(world)


def _replay(world: MirroredWorld, *arguments: str) -> dict[str, object]:
    config = str(world.settings.source_path)
    command = [
        sys.executable,
        "-m",
        "icemirror",
        "replay",
        "-c",
        config,
        "-t",
        "lab.world",
        "--json",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{_job_log(world)}"
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_replays_and_rebuilds_run_through_the_trigger_despite_killed_jobs(world: MirroredWorld) -> None:
    _until_idle(world)
    world.oracle.commit_many(2)
    watch = _watch(world)
    try:
        replayed = _replay(world, "--since", "1h", "--wait")
        assert (replayed["outcome"], replayed["changed_rows"]) == ("done", 0)
    finally:
        watch.terminate()
        watch.communicate()
    _wait_until_workers_end(world)
    assert _replay(world, "--full")["outcome"] == "asked"
    _kill_a_job(world, "stage-kept")
    _kill_a_job(world, "swap")
    before = {snapshot.snapshot_id for snapshot in world.mirror.snapshots()}
    _until_idle(world)
    added = [snapshot for snapshot in world.mirror.snapshots() if snapshot.snapshot_id not in before]
    assert sum(bool(snapshot.summary and snapshot.summary["icemirror.replay"]) for snapshot in added) == 1
    _check(world)


def _kill_a_job(world: MirroredWorld, point: str) -> None:
    before = set(_workers(world))
    watch = _watch(world, crash_at=point)
    try:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not (launched := set(_workers(world)) - before) or any(map(is_alive, launched)):
            assert time.monotonic() < deadline, f"{point} was not reached: {_job_log(world)}"
            time.sleep(0.1)
    finally:
        watch.send_signal(signal.SIGKILL)
        watch.communicate()
