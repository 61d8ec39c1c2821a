"""The sections about the trigger: how soon a commit is visible, alone and among many tables."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.markdown import write_section, write_table
from benchmarks.result import Fleet, Latency, LatencyRun, Run
from benchmarks.summary import percentile, spread
from benchmarks.systems.catalogue import OURS

_HEADER = ["median, s", "p95, s", "minimum–maximum, s"]


def write_latency(run: Run) -> str:
    """Return the section on latency: seconds from commit to row, in total and by step."""
    found = run.outcome("latency", OURS)
    if not isinstance(found, Latency):
        return ""
    rows = [
        [
            latency_run.title,
            f"{len(latency_run.commits)}",
            *_figures([commit.visible for commit in latency_run.commits]),
            *_steps(latency_run),
        ]
        for latency_run in found.runs
    ]
    text = (
        f"`icemirror watch` with `quiet_period: 0s` and a lingering job; commits of {found.events:,} events on a "
        f"changelog of {found.rows:,} rows. Time from the writer's append until the catalog has the mirror's commit. "
        "The last columns are medians of its steps."
    )
    header = ["changes are", "commits", *_HEADER, "to notice, s", "to take, s", "to merge, s"]
    return write_section("From commit to row", text, write_table(header, rows))


def _steps(run: LatencyRun) -> list[str]:
    noticed = [commit.noticed for commit in run.commits]
    taken = [commit.taken - commit.noticed for commit in run.commits]
    merged = [commit.visible - commit.taken for commit in run.commits]
    return [f"{spread(steps).middle:.2f}" for steps in (noticed, taken, merged)]


def write_fleet(run: Run) -> str:
    """Return the section on the fleet: seconds from commit to row by kind of table, and the jobs."""
    found = run.outcome("fleet", OURS)
    if not isinstance(found, Fleet):
        return ""
    rows = [
        [f"the busy one, every {found.busy_every_seconds:g} s", f"{len(found.busy)}", *_figures(found.busy)],
        [
            f"the {found.tables - 1} others, every {found.quiet_every_seconds:g} s",
            f"{len(found.quiet)}",
            *_figures(found.quiet),
        ],
        ["all at once, without a running job", f"{len(found.burst)}", *_figures(found.burst)],
    ]
    text = (
        f"{found.tables} tables for {found.seconds:.0f} s on one machine, {found.events:,} events per commit; writer, "
        "trigger and job share its cores. A table that commits more often than `quiet_period` is merged every "
        "`max_wait`."
    )
    sparks = "" if found.sparks is None else f" Jobs that started Spark: {found.sparks}."
    jobs = (
        f"Starved tables: {found.starved}. Jobs launched: {found.launches}, for {found.bursts} bursts. Concurrent "
        f"jobs: at most {found.most_jobs}; allowed: {found.allowed_jobs}.{sparks}"
    )
    return write_section(
        "Many tables, one of them busy", text, write_table(["tables", "commits", *_HEADER], rows), jobs
    )


def _figures(seconds: Sequence[float]) -> list[str]:
    found = spread(seconds)
    return [f"**{found.middle:.2f}**", f"{percentile(seconds, 95):.2f}", f"{found.low:.2f}–{found.high:.2f}"]
