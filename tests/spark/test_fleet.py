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
from tests.mirrors import MirroredWorld
from tests.oracle.schedules import Schedule

_TAIL = """
job: {linger: 1s, spark_from_events: 0, spark: {spark.master: "local[2]"}}
telemetry: {prometheus: null}
"""
_TIMEOUT_SECONDS = 180


@pytest.fixture
def lab(tmp_path: Path) -> MirroredWorld:
    options = "min_interval: 0s"
    schedule = Schedule(seed=77, key="string", largest_commit=300)
    lab = MirroredWorld.make(
        tmp_path, schedule, InProcessEngine(), options=options, tail=_TAIL, use_duckdb=False
    )
    lab.world.commit_many(2)
    return lab


def _watch(lab: MirroredWorld, *arguments: str, crash_at: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "icemirror", "watch", "-c", str(lab.settings.source_path), *arguments]
    environ = {**os.environ, CRASH_VARIABLE: crash_at}
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)


def _until_idle(lab: MirroredWorld) -> None:
    watch = _watch(lab, "--until-idle")
    _, stderr = watch.communicate(timeout=_TIMEOUT_SECONDS)
    assert watch.returncode == 0, f"{stderr}\n{_job_log(lab)}"


def _folder(lab: MirroredWorld) -> Path:
    return lab.settings.source_path.parent


def _job_log(lab: MirroredWorld) -> str:
    return "\n".join(path.read_text()[-3000:] for path in (_folder(lab) / "logs").glob("*.log"))


def _workers(lab: MirroredWorld) -> list[str]:
    return [path.read_text() for path in (_folder(lab) / "runs").glob("*.run")]


def _wait_until_workers_end(lab: MirroredWorld) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while any(is_alive(run) for run in _workers(lab)):
        assert time.monotonic() < deadline, "a worker is still running"
        time.sleep(0.2)


def _check(lab: MirroredWorld) -> None:
    verdicts = lab.world.verdicts_of_history(lab.mirror)
    for snapshot_id, verdict in verdicts.items():
        assert verdict.equal, f"snapshot {snapshot_id}: {verdict}"
    head = lab.world.changelog.table.refresh().current_snapshot()
    snapshot = lab.mirror.current_snapshot()
    assert head is not None
    assert snapshot is not None
    assert snapshot.summary is not None
    cursor = json.loads(snapshot.summary.additional_properties["icemirror.cursor"])
    assert cursor["sources"][0]["snapshot_id"] == head.snapshot_id
    _wait_until_workers_end(lab)


def test_commit_reaches_the_mirror_and_no_worker_stays(lab: MirroredWorld) -> None:
    _until_idle(lab)
    lab.world.commit_many(2)
    _until_idle(lab)
    _check(lab)


def test_next_process_continues_after_a_killed_one(lab: MirroredWorld) -> None:
    """Each process starts from the state that a killed one left; only the last one is not killed."""
    for point in ("worker-start-done", "root-written", "committed", "worker-complete"):
        _kill_a_job(lab, point)
        lab.world.commit_many(2)
    for point in ("noticed", "launched"):
        watch = _watch(lab, crash_at=point)
        watch.communicate(timeout=_TIMEOUT_SECONDS)
        assert watch.returncode == -signal.SIGKILL, f"{point} was not reached"
        _wait_until_workers_end(lab)
        lab.world.commit_many(2)
    _until_idle(lab)
    _check(lab)


def _replay(lab: MirroredWorld, *arguments: str) -> dict[str, object]:
    config = str(lab.settings.source_path)
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
    assert done.returncode == 0, f"{done.stderr}\n{_job_log(lab)}"
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_replays_and_rebuilds_run_through_the_trigger_despite_killed_jobs(lab: MirroredWorld) -> None:
    _until_idle(lab)
    lab.world.commit_many(2)
    watch = _watch(lab)
    try:
        replayed = _replay(lab, "--since", "1h", "--wait")
        assert (replayed["outcome"], replayed["changed_rows"]) == ("done", 0)
    finally:
        watch.terminate()
        watch.communicate()
    _wait_until_workers_end(lab)
    assert _replay(lab, "--full")["outcome"] == "asked"
    _kill_a_job(lab, "stage-kept")
    _kill_a_job(lab, "swap")
    before = {snapshot.snapshot_id for snapshot in lab.mirror.snapshots()}
    _until_idle(lab)
    added = [snapshot for snapshot in lab.mirror.snapshots() if snapshot.snapshot_id not in before]
    assert sum(bool(snapshot.summary and snapshot.summary["icemirror.replay"]) for snapshot in added) == 1
    _check(lab)


def _kill_a_job(lab: MirroredWorld, point: str) -> None:
    before = set(_workers(lab))
    watch = _watch(lab, crash_at=point)
    try:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not (launched := set(_workers(lab)) - before) or any(map(is_alive, launched)):
            assert time.monotonic() < deadline, f"{point} was not reached: {_job_log(lab)}"
            time.sleep(0.1)
    finally:
        watch.send_signal(signal.SIGKILL)
        watch.communicate()
