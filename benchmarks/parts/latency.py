"""From a commit on the changelog to the row in the mirror: the embedded trigger, and a job that lingers."""

from __future__ import annotations

import random
import time
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.embedded.lake import Choices, Commit, Lake, Writer
from benchmarks.embedded.sight import Sight
from benchmarks.embedded.watching import Watching
from benchmarks.messages import Timed
from benchmarks.parts.merges import Different
from benchmarks.parts.scale import Scale
from benchmarks.process import SystemFailed
from benchmarks.result import Latency, LatencyRun, Reached
from icemirror.protocol.rows import TableRow
from icemirror.stores.from_settings import read_rows

_SEED = 7
_LINGER_SECONDS = 60.0
_PATIENCE_SECONDS = 120.0
_TABLE = "orders"
_WAYS = (
    ("own-process", "merged by the job's own process", ""),
    ("spark", "merged on Spark", "spark_from_events: 0"),
)


def measure_latency(scale: Scale, bench: Bench) -> Latency:
    """The same commits twice: as the defaults have it for so few events, and with every slice on Spark."""
    runs: list[LatencyRun] = []
    for name, title, job in _WAYS:
        with bench.folder() as folder:
            runs.append(LatencyRun(name=name, title=title, commits=_commit_often(folder, job, scale, bench)))
    return Latency(rows=scale.latency_rows, events=scale.latency_events, runs=tuple(runs))


def _commit_often(folder: Path, job: str, scale: Scale, bench: Bench) -> tuple[Reached, ...]:
    choices = Choices(_LINGER_SECONDS, trigger="quiet_period: 0s", job=job)
    bench.progress.step(f"changelog of {scale.latency_rows:,} rows")
    lake = Lake(folder, {_TABLE: scale.latency_rows}, bench.limits, choices)
    (writer,) = lake.writers
    copied = writer.copy()
    commits: list[Reached] = []
    rng = random.Random(_SEED)
    with Watching(lake, _PATIENCE_SECONDS) as watching, Sight(lake) as sight:
        bench.progress.step("start, and the initial copy")
        watching.reached_at(copied, sight)
        _wait_until_covered(lake)
        _settle(writer, scale, watching, sight, lake)
        for number in range(scale.latency_commits):
            # At a random time between two polls, or all commits would fall on the same phase of the round.
            time.sleep(rng.random() * lake.settings.trigger.poll_interval)
            bench.progress.step(f"commit {number + 1} of {scale.latency_commits}")
            commit = writer.change(scale.latency_events)
            visible_at = watching.reached_at(commit, sight)
            _require_row(lake, commit)
            row = _wait_until_covered(lake)
            commits.append(_reached(commit, visible_at, row))
            bench.progress.note(Timed(seconds=commits[-1].visible))
        if len(watching.jobs()) != 1:
            raise SystemFailed(f"{len(watching.jobs())} jobs were launched, one was to linger")
    writer.check(lake.mirror(_TABLE))
    return tuple(commits)


def _settle(writer: Writer, scale: Scale, watching: Watching, sight: Sight, lake: Lake) -> None:
    """The first change after the copy is the warm-up."""
    watching.reached_at(writer.change(scale.latency_events), sight)
    _wait_until_covered(lake)


def _require_row(lake: Lake, commit: Commit) -> None:
    found = lake.mirror(commit.table).scan(row_filter=f"id = {commit.row_id}", selected_fields=("id",))
    if found.to_arrow().num_rows != 1:
        raise Different(f"{commit.table}: the row of a commit is missing although the cursor includes it")


def _wait_until_covered(lake: Lake) -> TableRow:
    """The table's row when the job has given the table back."""
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < give_up:
        (row,) = read_rows(lake.settings).tables.values()
        if row.dirty == row.covered and row.owner is None and row.last_run is not None:
            return row
        time.sleep(0.05)
    raise SystemFailed(f"{_TABLE}: the job did not give the table back")


def _reached(commit: Commit, visible_at: float, row: TableRow) -> Reached:
    if row.last_run is None:
        raise AssertionError("no run covered the table")
    return Reached(
        noticed=round(row.first_dirty_at - commit.begun_at, 4),
        taken=round(row.last_run.started_at - commit.begun_at, 4),
        visible=round(visible_at - commit.begun_at, 4),
    )
