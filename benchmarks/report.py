"""The run as Markdown: ratios first, then seconds, then everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.result import Run, SystemRun
from benchmarks.summary import growth, judge_aims, speedup, spread, steps_of, warm_seconds
from benchmarks.systems.catalogue import OURS, PEER, SYSTEMS

_MEGABYTE = 1e6


def write_report(run: Run) -> str:
    """The generated part of docs/performance.md."""
    sections = [_ratios(run), _seconds(run), _rest(run), _storage(run), _steps(run), _machine(run)]
    return "\n\n".join(section for section in sections if section)


def _ratios(run: Run) -> str:
    lines = [
        f"- {'✓' if aim.met else '✗'} **{aim.measured:.2f} ×** measured; aim: {aim.text}."
        for aim in judge_aims(run)
    ]
    lines += [
        f"- **{ratio:.1f} ×** as fast as {_title(PEER)}: {work.title}."
        for work in run.workloads
        if (ratio := speedup(run, work.name)) is not None
    ]
    peer = growth(run, PEER)
    if peer is not None:
        lines.append(f"- {_title(PEER)} itself takes {peer:.2f} × as long into ten times as many rows.")
    lines += [f"- Left out: {_title(name)} ({reason})." for name, reason in run.left_out.items()]
    return "\n".join(["### Ratios, all from this one run", "", *lines]) if lines else ""


def _seconds(run: Run) -> str:
    header = ["work", *map(_title, run.systems)]
    rows: list[list[str]] = []
    for work in run.workloads:
        spreads = [warm_seconds(work.systems[name]) for name in run.systems]
        rows.append(
            [work.title, *(f"**{one.middle:.2f}** ({one.low:.2f}–{one.high:.2f})" for one in spreads)]
        )
    pictures = "![Warm seconds per batch](img/batches.svg)\n\n![Seconds of each round](img/rounds.svg)"
    return "\n\n".join(
        ["### Seconds per warm batch: median (least–greatest)", _table(header, rows), pictures]
    )


def _rest(run: Run) -> str:
    header = ["work", "system", "initial load, s", "rows/s", "first batch, s", "full scan afterwards, s"]
    rows = [
        [
            title,
            _title(name),
            f"{one.load.seconds:.1f}",
            f"{rows_count / one.load.seconds:,.0f}",
            f"{one.batches[0].seconds:.2f}",
            f"{spread(one.inspection.scans).middle:.2f}",
        ]
        for title, rows_count, name, one in _each(run)
    ]
    return "\n\n".join(["### Load, warm-up and reading", _table(header, rows)])


def _storage(run: Run) -> str:
    header = [
        "work",
        "system",
        "data, MB",
        "deletes, MB",
        "index, bytes a row",
        "index ÷ data",
        "on disk ÷ data",
    ]
    rows: list[list[str]] = []
    for title, _, name, one in _each(run):
        found = one.inspection
        live = found.fingerprint.rows
        rows.append(
            [
                title,
                _title(name),
                f"{found.data_bytes / _MEGABYTE:.1f}",
                f"{found.delete_bytes / _MEGABYTE:.2f}",
                f"{found.index_bytes / live:.2f}" if found.index_bytes else "–",
                f"{found.index_bytes / found.data_bytes:.1%}" if found.index_bytes else "–",
                f"{found.disk_bytes / found.data_bytes:.2f}",
            ]
        )
    return "\n\n".join(["### Storage after the last batch", _table(header, rows)])


def _steps(run: Run) -> str:
    works = [work for work in run.workloads if OURS in work.systems]
    names = list(dict.fromkeys(name for work in works for name in steps_of(work.systems[OURS])))
    if not names:
        return ""
    rows: list[list[str]] = []
    for work in works:
        steps = steps_of(work.systems[OURS])
        rows.append([work.title, *(f"{steps.get(name, 0.0):.3f}" for name in names)])
    note = (
        "Medians of warm batches, seconds; of shards that run side by side the slowest counts. `spark` is what no step "
        "claims: scheduling, the way to the Python worker and back, the shuffle. `empty plan` comes after the commit "
        "and is no part of the time above; `slices` is a number of commits."
    )
    return "\n\n".join(["### Where icemirror's time goes", _table(["work", *names], rows), note])


def _machine(run: Run) -> str:
    machine = run.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return (
        "### The machine\n\n"
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / (1 << 30):.0f} GiB; {machine.system}. "
        f"Spark `local[{run.spark_cores}]` with {run.driver_memory} for the driver, for each system; local disk. "
        f"{versions}. {run.began_at}, {run.seconds / 60:.0f} minutes, load average at the start {machine.busy:.1f}."
    )


def _each(run: Run) -> Iterator[tuple[str, int, str, SystemRun]]:
    for work in run.workloads:
        for name, one in work.systems.items():
            yield work.title, work.rows, name, one


def _title(system: str) -> str:
    return SYSTEMS[system].title


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
