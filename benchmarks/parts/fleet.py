"""Many tables on one machine, one of them busy: whether every table is served, and by how many jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from heapq import heapify, heapreplace

from benchmarks.bench import Bench
from benchmarks.embedded.commit_poller import CommitPoller
from benchmarks.embedded.job_counter import JobCounter, can_count
from benchmarks.embedded.lake import Commit, Lake, LakeOptions, Writer
from benchmarks.embedded.watch_process import WatchProcess
from benchmarks.messages import Timed
from benchmarks.parts.scale import Scale
from benchmarks.result import Fleet

_TIMEOUT_SECONDS = 180.0
_FRESH_SECONDS = 15.0  # before the end: a newer commit that is not visible yet does not count as starved
_BURSTS = 2


def measure_fleet(scale: Scale, bench: Bench) -> Fleet:
    """Measure two bursts: the initial copies, followed by the busy time; then all tables at once, with no job left."""
    busy, *quiet = [f"t{number:03d}" for number in range(scale.fleet_tables)]
    rows = {busy: scale.fleet_busy_rows, **dict.fromkeys(quiet, scale.fleet_rows)}
    with bench.folder() as folder:
        bench.progress.step(f"{scale.fleet_tables} changelogs")
        lake = Lake(folder, rows, bench.limits, LakeOptions(scale.fleet_linger_seconds))
        copies = [writer.copy() for writer in lake.writers]
        with (
            WatchProcess(lake, _TIMEOUT_SECONDS) as watch,
            CommitPoller(lake) as poller,
            JobCounter(watch.jobs) as counter,
        ):
            began = time.monotonic()
            bench.progress.step(f"start, and {scale.fleet_tables} initial copies")
            for copy in copies:
                watch.reached_at(copy, poller)
            bench.progress.record(Timed(seconds=time.monotonic() - began))
            bench.progress.step(f"one table busy, for {scale.fleet_seconds:.0f} s")
            commits, ended_at = _keep_committing(lake, scale)
            late = {commit for commit in commits if ended_at - commit.begun_at > _FRESH_SECONDS}
            starved = {commit.table for commit in late if poller.reached_at(commit) is None} - {busy}
            reached = [(commit, watch.reached_at(commit, poller) - commit.begun_at) for commit in commits]
            bench.progress.record(Timed(seconds=max(seconds for _, seconds in reached)))
            watch.wait_until_jobs_end()
            bench.progress.step(f"a commit on each of {scale.fleet_tables} tables at once")
            burst = [writer.change(scale.fleet_events) for writer in lake.writers]
            burst_seconds = [watch.reached_at(commit, poller) - commit.begun_at for commit in burst]
            bench.progress.record(Timed(seconds=max(burst_seconds)))
            watch.wait_until_jobs_end()
            launches = len(watch.jobs())
        for writer in lake.writers:
            writer.check(lake.mirror(writer.name))
        return Fleet(
            tables=scale.fleet_tables,
            seconds=scale.fleet_seconds,
            events=scale.fleet_events,
            busy_every_seconds=scale.fleet_busy_every_seconds,
            quiet_every_seconds=scale.fleet_quiet_every_seconds,
            busy=tuple(round(seconds, 4) for commit, seconds in reached if commit.table == busy),
            quiet=tuple(round(seconds, 4) for commit, seconds in reached if commit.table != busy),
            burst=tuple(round(seconds, 4) for seconds in burst_seconds),
            starved=len(starved),
            bursts=_BURSTS,
            launches=launches,
            allowed_jobs=lake.settings.trigger.max_concurrent_jobs,
            most_jobs=counter.most_jobs,
            most_sparks=counter.most_sparks if can_count() else None,
            sparks=counter.sparks if can_count() else None,
        )


def _keep_committing(lake: Lake, scale: Scale) -> tuple[list[Commit], float]:
    """Commit on schedule, or as soon after it as possible; return the commits and the end time."""
    commits: list[Commit] = []
    began = time.monotonic()
    for due, writer in _commit_times(lake.writers, scale):
        time.sleep(max(0.0, began + due - time.monotonic()))
        if time.monotonic() - began >= scale.fleet_seconds:
            break
        commits.append(writer.change(scale.fleet_events))
    return commits, time.time()


def _commit_times(writers: list[Writer], scale: Scale) -> Iterator[tuple[float, Writer]]:
    """Yield commit times without end, in seconds from the start. Quiet tables are spread evenly over their interval."""
    spacing = scale.fleet_quiet_every_seconds / max(1, len(writers) - 1)
    intervals = [scale.fleet_busy_every_seconds, *[scale.fleet_quiet_every_seconds] * (len(writers) - 1)]
    due = [(0.0 if number == 0 else (number - 1) * spacing, number) for number in range(len(writers))]
    heapify(due)
    while True:
        commit_at, number = due[0]
        yield commit_at, writers[number]
        heapreplace(due, (commit_at + intervals[number], number))
