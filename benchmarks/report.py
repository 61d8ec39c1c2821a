"""The figures of a run as Markdown: the aims first, then seconds, then the rest."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.aims import Aim, judge_aims
from benchmarks.charts import COMPARED
from benchmarks.index_report import write_lookups, write_memory, write_reading, write_storages
from benchmarks.markdown import write_section, write_table
from benchmarks.result import Absent, Run, WorkloadRun
from benchmarks.runner import CROWDED_CORES
from benchmarks.summary import (
    HUNDRED,
    by_events,
    mean_before,
    median_around,
    repeated,
    spread,
    steps_of,
    warm_seconds,
)
from benchmarks.systems.catalogue import OURS, PEER, SYSTEMS
from benchmarks.trigger_report import write_fleet, write_latency


def write_report(run: Run) -> str:
    """Return the generated part of docs/explanation/performance.md."""
    sections = [
        _aims(run),
        _seconds(run),
        _growth(run),
        _many(run),
        write_latency(run),
        write_fleet(run),
        write_reading(run),
        write_lookups(run),
        write_storages(run),
        write_memory(run),
        _rest(run),
        _steps(run),
        _conditions(run),
    ]
    return "\n\n".join(section for section in sections if section)


def _aims(run: Run) -> str:
    aims = judge_aims(run)
    rows = [[aim.text, _limit(aim), _measured(aim)] for aim in aims if not aim.met]
    text = f"{len(aims) - len(rows)} of {len(aims)} aims reached (`benchmarks/aims.py`)."
    text += " Missed:" if rows else ""
    return write_section("Aims", text, write_table(["aim", "limit", "measured"], rows) if rows else "")


def _limit(aim: Aim) -> str:
    return f"{'≤' if aim.at_most else '≥'} {aim.limit:,g} {aim.unit}".rstrip()


def _measured(aim: Aim) -> str:
    value = aim.measured
    number = f"{value:,.0f}" if aim.unit == "/s" else f"{value:.3f}" if aim.unit == "s" else f"{value:.2f}"
    return f"{number if aim.unit else format(value, 'g')} {aim.unit}".rstrip()


def _seconds(run: Run) -> str:
    works = [runs for part in COMPARED for runs in run.workloads(part).values()]
    systems = [name for name in SYSTEMS if any(name in runs for runs in works)]
    rows: list[list[str]] = []
    for runs in works:
        cells = [_spread(runs[name]) if name in runs else "–" for name in systems]
        rows.append([next(iter(runs.values())).title, *cells])
    left_out = [
        f"- Left out: {cell.part}, {SYSTEMS[cell.system].title}: {cell.outcome.reason}"
        for cell in run.cells
        if isinstance(cell.outcome, Absent)
    ]
    if not rows:
        return write_section("Left out", "\n".join(left_out))
    return write_section(
        "Seconds per warm batch: median (minimum–maximum)",
        write_table(["work", *(SYSTEMS[name].title for name in systems)], rows),
        "\n".join(left_out),
        "![Seconds per warm batch](img/batches.svg)",
    )


def _spread(run: WorkloadRun) -> str:
    found = warm_seconds(run)
    return f"**{found.middle:.2f}** ({found.low:.2f}–{found.high:.2f})"


def _growth(run: Run) -> str:
    blocks: list[str] = []
    if len(run.workloads("small")) > 1:
        blocks.append("![Seconds by the size of the table](img/table-size.svg)")
    ladder = run.workloads("changes").get("changes", {})
    if ladder:
        steps = {system: by_events(workload) for system, workload in ladder.items()}
        sizes = list(dict.fromkeys(events for found in steps.values() for events in found))
        rows = [
            [f"{events:,}", *(f"{steps[system][events].middle:.2f}" for system in steps)] for events in sizes
        ]
        header = [
            f"events into {next(iter(ladder.values())).rows:,} rows",
            *(SYSTEMS[name].title for name in steps),
        ]
        blocks += [write_table(header, rows), "![Seconds by the size of the change](img/change-size.svg)"]
    return write_section("Growth with the table and with the change, seconds", *blocks)


def _many(run: Run) -> str:
    many = repeated(run)
    if many is None:
        return ""
    last = len(many.batches)
    shown = [number for number in (10, 100, 300, 1000) if number < last] + [last]
    rows = [
        [f"{number:,}", f"{median_around(many, number):.3f}", f"{mean_before(many, number):.3f}"]
        for number in shown
    ]
    text = (
        f"{many.title}, repeated. Each row shows the median of the nine merges around it, and the mean of up to "
        f"{HUNDRED} before it, compactions included."
    )
    return write_section(
        "Merge after merge",
        text,
        write_table(["merge", "median, s", "mean, s"], rows),
        "![Merge after merge](img/repeated.svg)",
    )


def _rest(run: Run) -> str:
    header = [
        "work",
        "system",
        "initial load, s",
        "full scan, s",
        "index, B/row",
        "on disk ÷ data",
    ]
    rows: list[list[str]] = []
    before = ""
    for system, workload in _workload_runs(run):
        if system not in (OURS, PEER):
            continue
        found = workload.inspection
        rows.append(
            [
                "" if workload.title == before else workload.title,
                SYSTEMS[system].title,
                f"{workload.load.seconds:.1f}",
                f"{spread(found.scans).middle:.2f} ({found.scanned_by})",
                f"{found.index_bytes / found.fingerprint.rows:.2f}" if found.index_bytes else "–",
                f"{found.disk_bytes / found.data_bytes:.2f}",
            ]
        )
        before = workload.title
    note = "`performance.json` has the other systems."
    return (
        write_section("Load, reading and bytes after the last batch", write_table(header, rows, 2), note)
        if rows
        else ""
    )


def _workload_runs(run: Run) -> Iterator[tuple[str, WorkloadRun]]:
    for part in COMPARED:
        for runs in run.workloads(part).values():
            yield from runs.items()


# The smallest and largest change, and the widest rows; performance.json has the steps of all.
_SHOWN_STEPS = ("small-1m", "small-50m", "large", "wide")


def _steps(run: Run) -> str:
    works = [
        workload
        for system, workload in _workload_runs(run)
        if system == OURS and workload.name in _SHOWN_STEPS
    ]
    names = [
        name
        for name in dict.fromkeys(name for workload in works for name in steps_of(workload))
        if any(f"{steps_of(workload).get(name, 0.0):.3f}" != "0.000" for workload in works)
    ]
    if not names:
        return ""
    rows: list[list[str]] = []
    for workload in works:
        steps = steps_of(workload)
        rows.append([workload.title, *(f"{steps.get(name, 0.0):.3f}" for name in names)])
    note = (
        "Medians of warm batches, seconds; the slowest of parallel shards counts. `spark` is the time outside of the "
        "steps: scheduling, transfer to Python workers, shuffle. `empty plan` follows the commit and is not included "
        "above. `slices` counts commits."
    )
    return write_section("Where icemirror's time goes", write_table(["work", *names], rows), note)


def _conditions(run: Run) -> str:
    if not run.cells:
        return ""
    machine = run.cells[0].machine
    versions = {
        name: version
        for cell in run.cells
        for name, version in cell.machine.versions.items()
        if name != "Spark"
    }
    text = (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / (1 << 30):.0f} GiB; {machine.system}; local "
        f"disk. {', '.join(f'{name} {version}' for name, version in versions.items())}."
    )
    crowded = sum(cell.conditions.crowded for cell in run.cells)
    warning = (
        f"**{crowded} of {len(run.cells)} measurements began while other processes used more than {CROWDED_CORES} "
        "cores: do not rely on their seconds.**"
        if crowded
        else ""
    )
    busy = [cell.conditions.busy_cores for cell in run.cells if cell.conditions.busy_cores is not None]
    when = (
        f"Measured from {min(cell.began_at for cell in run.cells)} to {max(cell.began_at for cell in run.cells)}. "
        f"Other processes used at most {max(busy, default=0.0):.1f} cores when a part began. `performance.json` has "
        "the conditions of every part."
    )
    return write_section("The machine", text, warning, when)
