"""The pictures of docs/performance.md."""

from __future__ import annotations

import math

from benchmarks.result import Run
from benchmarks.summary import warm_seconds
from benchmarks.svg import COLOURS, Drawing
from benchmarks.systems.catalogue import SYSTEMS

_WIDTH = 720.0
_LEFT, _RIGHT = 210.0, 70.0
_BAR, _GAP = 20.0, 16.0
_HEIGHT = 320.0


def draw_batches(run: Run) -> str:
    """A bar for each workload and system: the median, with a line from the least to the greatest."""
    each = _BAR * len(run.systems) + _GAP
    height = 60 + each * len(run.workloads) + 20
    drawing = Drawing(_WIDTH, height, "Seconds per warm batch, median, least and greatest")
    _legend(drawing, run, "Seconds per warm batch (shorter is better)")
    most = max(warm_seconds(one).high for work in run.workloads for one in work.systems.values())
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    top = 60.0
    for work in run.workloads:
        drawing.text(_LEFT - 10, top + each / 2 - _GAP / 2 - 3, f"{work.events:,} events", anchor="end")
        drawing.text(_LEFT - 10, top + each / 2 - _GAP / 2 + 13, f"into {work.rows:,} rows", "faint", "end")
        for name, one in work.systems.items():
            found = warm_seconds(one)
            middle = top + _BAR / 2
            drawing.bar(_LEFT, top + 2, found.middle * scale, _BAR - 4, _colour(run, name))
            drawing.line((_LEFT + found.low * scale, middle), (_LEFT + found.high * scale, middle), "spread")
            drawing.text(_LEFT + found.high * scale + 6, middle + 5, f"{found.middle:.2f} s")
            top += _BAR
        top += _GAP
    return str(drawing)


def draw_rounds(run: Run) -> str:
    """A line for each small workload and system over the rounds, the warm-up included."""
    works = [work for work in run.workloads if work.name.startswith("small")] or list(run.workloads)
    drawing = Drawing(_WIDTH, _HEIGHT, "Seconds of each batch, round by round")
    x = _legend(drawing, run, "Seconds of each small batch, round by round; the first is the warm-up")
    rounds = max(len(one.batches) for work in works for one in work.systems.values())
    most = max(batch.seconds for work in works for one in work.systems.values() for batch in one.batches)
    step = _nice_step(most)
    ceiling = step * math.ceil(most / step)
    left, right, top, bottom = 50.0, 20.0, 60.0, _HEIGHT - 40

    def place(number: int, seconds: float) -> tuple[float, float]:
        across = (_WIDTH - left - right) * number / max(1, rounds - 1)
        return left + across, bottom - (bottom - top) * seconds / ceiling

    for mark in range(round(ceiling / step) + 1):
        y = place(0, mark * step)[1]
        drawing.line((left, y), (_WIDTH - right, y), "grid")
        drawing.text(left - 8, y + 4, f"{mark * step:g}", "faint", "end")
    for number in range(rounds):
        drawing.text(place(number, 0)[0], bottom + 20, str(number + 1), "faint", "middle")
    for work in works:
        dashed = " dashed" if work.name == "small-tenth" else ""
        drawing.path([(x, 40), (x + 28, 40)], "plain" + dashed)
        drawing.text(x + 36, 45, f"{work.rows:,} rows", "faint")
        x += 70 + 7.5 * len(f"{work.rows:,} rows")
        for name, one in work.systems.items():
            points = [place(number, batch.seconds) for number, batch in enumerate(one.batches)]
            drawing.path(points, _colour(run, name) + dashed)
    return str(drawing)


def _legend(drawing: Drawing, run: Run, title: str) -> float:
    """Title and systems; where the next thing in that line may begin."""
    drawing.text(10, 22, title, "title")
    x = 10.0
    for name in run.systems:
        drawing.bar(x, 34, 12, 12, _colour(run, name))
        drawing.text(x + 18, 45, SYSTEMS[name].title)
        x += 40 + 7.5 * len(SYSTEMS[name].title)
    return x


def _colour(run: Run, system: str) -> str:
    return f"s{run.systems.index(system) % COLOURS}"


def _nice_step(most: float) -> float:
    """1, 2 or 5 times a power of ten, so that there are about five marks."""
    rough = max(most, 1e-9) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
