"""The charts of docs/explanation/performance.md."""

from __future__ import annotations

import math

from benchmarks.plot import Axis, Line, draw_lines
from benchmarks.result import Run, WorkloadRun
from benchmarks.summary import by_events, repeated, warm_seconds
from benchmarks.svg import COLOURS, Drawing
from benchmarks.systems.catalogue import OURS, SYSTEMS

COMPARED = ("small", "hashed", "large", "wide")
_WIDTH = 720.0
_LEFT, _RIGHT = 230.0, 80.0
_BAR, _GAP = 18.0, 16.0
_MIN_SECONDS = 0.01  # seconds at the start of the bars
_ORDER = list(SYSTEMS)


def draw_charts(run: Run) -> dict[str, str]:
    """Return the charts for which the run has figures: file name → SVG."""
    charts: dict[str, str] = {}
    compared = {name: runs for part in COMPARED for name, runs in run.workloads(part).items()}
    if compared:
        charts["batches.svg"] = _draw_batches(compared)
    if sizes := _table_sizes(run):
        charts["table-size.svg"] = draw_lines(
            "A small batch, by the size of the table", Axis("rows", True), Axis("seconds", True), sizes
        )
    if changes := _change_sizes(run):
        charts["change-size.svg"] = draw_lines(
            "A batch, by its number of events", Axis("events", True), Axis("seconds", True), changes
        )
    many = repeated(run)
    if many is not None:
        points = tuple((float(number), batch.seconds) for number, batch in enumerate(many.batches, start=1))
        line = Line(f"icemirror, {many.title}", 0, points[1:] or points, dots=False)
        charts["repeated.svg"] = draw_lines(
            "Merge after merge", Axis("merge", False), Axis("seconds", False), [line]
        )
    return charts


def _draw_batches(compared: dict[str, dict[str, WorkloadRun]]) -> str:
    """Draw a bar per workload and system: the median, with a line from minimum to maximum; logarithmic."""
    systems = [name for name in _ORDER if any(name in runs for runs in compared.values())]
    bars = sum(len(runs) for runs in compared.values())
    title = "Seconds per warm batch, logarithmic (shorter is better)"
    legend = Drawing(_WIDTH, 0, title)
    top = _legend(legend, systems, title) + 18
    height = top + _BAR * bars + _GAP * len(compared) + 20
    drawing = Drawing(_WIDTH, height, title)
    _legend(drawing, systems, title)
    longest = max(warm_seconds(run).high for runs in compared.values() for run in runs.values())
    decades = math.log10(max(longest / _MIN_SECONDS, 10))

    def bar_length(seconds: float) -> float:
        return (
            (_WIDTH - _LEFT - _RIGHT)
            * max(0.0, math.log10(max(seconds, _MIN_SECONDS) / _MIN_SECONDS))
            / decades
        )

    for power in range(math.ceil(decades)):
        x = _LEFT + bar_length(_MIN_SECONDS * 10**power)
        drawing.line((x, top - 4), (x, height - 20), "grid")
        drawing.text(x, height - 6, f"{_MIN_SECONDS * 10**power:g} s", "faint", "middle")
    for runs in compared.values():
        any_run = next(iter(runs.values()))
        middle = top + _BAR * len(runs) / 2
        drawing.text(_LEFT - 10, middle, f"{any_run.events[0]:,} events", anchor="end")
        kind = any_run.name.split("-")[0]
        suffix = {"wide": ", wide", "hashed": ", text keys"}.get(kind, "")
        drawing.text(_LEFT - 10, middle + 15, f"into {any_run.rows:,} rows{suffix}", "faint", "end")
        for name in (system for system in systems if system in runs):
            found = warm_seconds(runs[name])
            y = top + _BAR / 2
            drawing.bar(_LEFT, top + 2, max(1.0, bar_length(found.middle)), _BAR - 4, _colour(name))
            drawing.line((_LEFT + bar_length(found.low), y), (_LEFT + bar_length(found.high), y), "spread")
            drawing.text(_LEFT + bar_length(found.high) + 6, y + 5, f"{found.middle:.2f} s")
            top += _BAR
        top += _GAP
    return str(drawing)


def _table_sizes(run: Run) -> list[Line]:
    lines: list[Line] = []
    for part, suffix in (("small", ""), ("hashed", ", text keys")):
        points: dict[str, list[tuple[float, float]]] = {}
        for runs in run.workloads(part).values():
            for system, workload in runs.items():
                points.setdefault(system, []).append((float(workload.rows), warm_seconds(workload).middle))
        lines += [
            Line(SYSTEMS[name].title + suffix, _ORDER.index(name), tuple(found), dashed=bool(suffix))
            for name, found in points.items()
            if len(found) > 1
        ]
    return lines


def _change_sizes(run: Run) -> list[Line]:
    lines: list[Line] = []
    large = run.workloads("large").get("large", {})
    for system, workload in run.workloads("changes").get("changes", {}).items():
        points = [(float(events), found.middle) for events, found in by_events(workload).items()]
        if system in large:
            points.append((float(large[system].events[0]), warm_seconds(large[system]).middle))
        lines.append(Line(SYSTEMS[system].title, _ORDER.index(system), tuple(points)))
    return sorted(lines, key=lambda line: line.name != SYSTEMS[OURS].title)


def _legend(drawing: Drawing, systems: list[str], title: str) -> float:
    """Draw title and systems, in as many lines as they need; return the position of the last line."""
    drawing.text(10, 22, title, "title")
    x, y = 10.0, 45.0
    for name in systems:
        width = 40 + 7.5 * len(SYSTEMS[name].title)
        if x > 10 and x + width > _WIDTH:
            x, y = 10.0, y + 22
        drawing.bar(x, y - 11, 12, 12, _colour(name))
        drawing.text(x + 18, y, SYSTEMS[name].title)
        x += width
    return y


def _colour(system: str) -> str:
    return f"s{_ORDER.index(system) % COLOURS}"
