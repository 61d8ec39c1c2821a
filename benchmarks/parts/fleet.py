"""Many tables on one machine, one of them busy: is every table served, and by how many jobs?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from heapq import heapify, heapreplace

from benchmarks.bench import Bench
from benchmarks.embedded.census import Census, can_count
from benchmarks.embedded.lake import Choices, Commit, Lake, Writer
from benchmarks.embedded.sight import Sight
from benchmarks.embedded.watching import Watching
from benchmarks.messages import Timed
from benchmarks.parts.scale import Scale
from benchmarks.result import Fleet

_PATIENCE_SECONDS = 180.0
_FRESH_SECONDS = 15.0  # before the end: a commit that young is not starved if it is not visible yet
_BURSTS = 2


def measure_fleet(scale: Scale, bench: Bench) -> Fleet:
    """First burst: the initial copies, and right after them the busy time. Second: all tables at once, after a rest."""
    busy, *quiet = [f"t{number:03d}" for number in range(scale.fleet_tables)]
    rows = {busy: scale.fleet_busy_rows, **dict.fromkeys(quiet, scale.fleet_rows)}
    with bench.folder() as folder:
        bench.progress.step(f"{scale.fleet_tables} changelogs")
        lake = Lake(folder, rows, bench.limits, Choices(scale.fleet_linger_seconds))
        copies = [writer.copy() for writer in lake.writers]
        with (
            Watching(lake, _PATIENCE_SECONDS) as watching,
            Sight(lake) as sight,
            Census(watching.jobs) as census,
        ):
            began = time.monotonic()
            bench.progress.step(f"start, and {scale.fleet_tables} initial copies")
            for copy in copies:
                watching.reached_at(copy, sight)
            bench.progress.note(Timed(seconds=time.monotonic() - began))
            bench.progress.step(f"one table busy, for {scale.fleet_seconds:.0f} s")
            commits, ended_at = _keep_committing(lake, scale)
            late = {commit for commit in commits if ended_at - commit.begun_at > _FRESH_SECONDS}
            starved = {one.table for one in late if sight.reached_at(one) is None} - {busy}
            reached = [(one, watching.reached_at(one, sight) - one.begun_at) for one in commits]
            bench.progress.note(Timed(seconds=max(seconds for _, seconds in reached)))
            watching.wait_until_no_job_is_left()
            bench.progress.step(f"a commit on each of {scale.fleet_tables} tables at once")
            burst = [writer.change(scale.fleet_events) for writer in lake.writers]
            burst_seconds = [watching.reached_at(one, sight) - one.begun_at for one in burst]
            bench.progress.note(Timed(seconds=max(burst_seconds)))
            watching.wait_until_no_job_is_left()
            launches = len(watching.jobs())
        for writer in lake.writers:
            writer.check(lake.mirror(writer.name))
        return Fleet(
            tables=scale.fleet_tables,
            seconds=scale.fleet_seconds,
            events=scale.fleet_events,
            busy_every_seconds=scale.fleet_busy_every_seconds,
            quiet_every_seconds=scale.fleet_quiet_every_seconds,
            busy=tuple(round(seconds, 4) for one, seconds in reached if one.table == busy),
            quiet=tuple(round(seconds, 4) for one, seconds in reached if one.table != busy),
            burst=tuple(round(seconds, 4) for seconds in burst_seconds),
            starved=len(starved),
            bursts=_BURSTS,
            launches=launches,
            allowed_jobs=lake.settings.trigger.max_concurrent_jobs,
            most_jobs=census.most_jobs,
            most_sparks=census.most_sparks if can_count() else None,
            sparks=census.sparks if can_count() else None,
        )


def _keep_committing(lake: Lake, scale: Scale) -> tuple[list[Commit], float]:
    """The commits, each at its time (or as soon after it as this one writer can), and when the last was made."""
    commits: list[Commit] = []
    began = time.monotonic()
    for due, writer in _commit_times(lake.writers, scale):
        time.sleep(max(0.0, began + due - time.monotonic()))
        if time.monotonic() - began >= scale.fleet_seconds:
            break
        commits.append(writer.change(scale.fleet_events))
    return commits, time.time()


def _commit_times(writers: list[Writer], scale: Scale) -> Iterator[tuple[float, Writer]]:
    """Without end, in seconds from the beginning. The quiet ones are spread evenly over their interval."""
    apart = scale.fleet_quiet_every_seconds / max(1, len(writers) - 1)
    every = [scale.fleet_busy_every_seconds, *[scale.fleet_quiet_every_seconds] * (len(writers) - 1)]
    due = [(0.0 if number == 0 else (number - 1) * apart, number) for number in range(len(writers))]
    heapify(due)
    while True:
        at, number = due[0]
        yield at, writers[number]
        heapreplace(due, (at + every[number], number))
