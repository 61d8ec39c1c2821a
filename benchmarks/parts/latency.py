"""Time from a commit on the changelog to the row in the mirror, with the embedded trigger and a lingering job."""

from __future__ import annotations

import random
import time
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.embedded.commit_poller import CommitPoller
from benchmarks.embedded.lake import Commit, Lake, LakeOptions, Writer
from benchmarks.embedded.watch_process import WatchProcess
from benchmarks.messages import Timed
from benchmarks.parts.merges import Different
from benchmarks.parts.scale import Scale
from benchmarks.process import SystemFailed
from benchmarks.result import Latency, LatencyRun, Reached
from icemirror.protocol.rows import TableRow
from icemirror.stores.from_settings import read_rows

_SEED = 7
_LINGER_SECONDS = 60.0
_TIMEOUT_SECONDS = 120.0
_TABLE = "orders"
_MODES = (
    ("own-process", "merged by the job's own process", ""),
    ("spark", "merged on Spark", "spark_from_events: 0"),
)


def measure_latency(scale: Scale, bench: Bench) -> Latency:
    """Measure the same commits twice: with the defaults for small slices, and with every slice on Spark."""
    runs: list[LatencyRun] = []
    for name, title, job in _MODES:
        with bench.folder() as folder:
            runs.append(LatencyRun(name=name, title=title, commits=_commit_often(folder, job, scale, bench)))
    return Latency(rows=scale.latency_rows, events=scale.latency_events, runs=tuple(runs))


def _commit_often(folder: Path, job: str, scale: Scale, bench: Bench) -> tuple[Reached, ...]:
    options = LakeOptions(_LINGER_SECONDS, trigger="quiet_period: 0s", job=job)
    bench.progress.step(f"changelog of {scale.latency_rows:,} rows")
    lake = Lake(folder, {_TABLE: scale.latency_rows}, bench.limits, options)
    (writer,) = lake.writers
    copied = writer.copy()
    commits: list[Reached] = []
    rng = random.Random(_SEED)
    with WatchProcess(lake, _TIMEOUT_SECONDS) as watch, CommitPoller(lake) as poller:
        bench.progress.step("start, and the initial copy")
        watch.reached_at(copied, poller)
        _wait_until_released(lake)
        _warm_up(writer, scale, watch, poller, lake)
        for number in range(scale.latency_commits):
            # At a random time between two polls, so that commits do not share one phase of the poll interval.
            time.sleep(rng.random() * lake.settings.trigger.poll_interval)
            bench.progress.step(f"commit {number + 1} of {scale.latency_commits}")
            commit = writer.change(scale.latency_events)
            visible_at = watch.reached_at(commit, poller)
            _require_row(lake, commit)
            row = _wait_until_released(lake)
            commits.append(_reached(commit, visible_at, row))
            bench.progress.record(Timed(seconds=commits[-1].visible))
        if len(watch.jobs()) != 1:
            raise SystemFailed(f"{len(watch.jobs())} jobs were launched, one was to linger")
    writer.check(lake.mirror(_TABLE))
    return tuple(commits)


def _warm_up(writer: Writer, scale: Scale, watch: WatchProcess, poller: CommitPoller, lake: Lake) -> None:
    """Warm up with the first change after the copy."""
    watch.reached_at(writer.change(scale.latency_events), poller)
    _wait_until_released(lake)


def _require_row(lake: Lake, commit: Commit) -> None:
    found = lake.mirror(commit.table).scan(row_filter=f"id = {commit.row_id}", selected_fields=("id",))
    if found.to_arrow().num_rows != 1:
        raise Different(f"{commit.table}: the row of a commit is missing although the cursor includes it")


def _wait_until_released(lake: Lake) -> TableRow:
    """Wait until the job has released the table, and return its row."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        (row,) = read_rows(lake.settings).tables.values()
        if row.dirty == row.covered and row.owner is None and row.last_run is not None:
            return row
        time.sleep(0.05)
    raise SystemFailed(f"{_TABLE}: the job did not release the table")


def _reached(commit: Commit, visible_at: float, row: TableRow) -> Reached:
    if row.last_run is None:
        raise AssertionError("no run covered the table")
    return Reached(
        noticed=round(row.first_dirty_at - commit.begun_at, 4),
        taken=round(row.last_run.started_at - commit.begun_at, 4),
        visible=round(visible_at - commit.begun_at, 4),
    )
