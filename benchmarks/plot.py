"""A chart of lines on two axes, each linear or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.svg import COLOURS, Drawing

_WIDTH, _HEIGHT = 720.0, 340.0
_LEFT, _RIGHT, _BOTTOM = 60.0, 40.0, 50.0
_LINE = 22.0
_LETTER = 7.5


@dataclass(frozen=True)
class Line:
    """Points that belong together; `colour` is the place of its system."""

    name: str
    colour: int
    points: tuple[tuple[float, float], ...]
    dashed: bool = False
    dots: bool = True


@dataclass(frozen=True)
class Axis:
    """What an axis shows."""

    name: str
    log: bool


def draw_lines(title: str, x_axis: Axis, y_axis: Axis, lines: Sequence[Line]) -> str:
    """The chart as SVG."""
    drawing = Drawing(_WIDTH, _HEIGHT, title)
    drawing.text(10, 22, title, "title")
    top = _draw_legend(drawing, lines) + 36
    bottom = _HEIGHT - _BOTTOM
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x_marks, y_marks = _marks(min(xs), max(xs), x_axis.log), _marks(min(ys), max(ys), y_axis.log)

    def place(x: float, y: float) -> tuple[float, float]:
        across = _share(x, x_marks, x_axis.log) * (_WIDTH - _LEFT - _RIGHT)
        return _LEFT + across, bottom - _share(y, y_marks, y_axis.log) * (bottom - top)

    for mark in y_marks:
        _, y = place(x_marks[0], mark)
        drawing.line((_LEFT, y), (_WIDTH - _RIGHT, y), "grid")
        drawing.text(_LEFT - 8, y + 4, _shown(mark), "faint", "end")
    for mark in x_marks:
        x, _ = place(mark, y_marks[0])
        drawing.line((x, bottom), (x, bottom + 5), "grid")
        drawing.text(x, bottom + 20, _shown(mark), "faint", "middle")
    drawing.text((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 40, x_axis.name, "faint", "middle")
    drawing.text(10, top - 12, y_axis.name, "faint")
    for line in lines:
        points = [place(x, y) for x, y in line.points]
        drawing.path(points, _style(line))
        for x, y in points if line.dots else ():
            drawing.bar(x - 3, y - 3, 6, 6, f"s{line.colour % COLOURS}")
    return str(drawing)


def _draw_legend(drawing: Drawing, lines: Sequence[Line]) -> float:
    """The names of the lines, in as many rows as they need; where the last row is."""
    x, y = 10.0, 46.0
    for line in lines:
        width = 50 + _LETTER * len(line.name)
        if x > 10 and x + width > _WIDTH:
            x, y = 10.0, y + _LINE
        drawing.path([(x, y - 4), (x + 24, y - 4)], _style(line))
        drawing.text(x + 30, y, line.name)
        x += width
    return y


def _style(line: Line) -> str:
    return f"s{line.colour % COLOURS}" + (" dashed" if line.dashed else "")


def _share(value: float, marks: Sequence[float], log: bool) -> float:
    low, high = marks[0], marks[-1]
    if log:
        value, low, high = (math.log10(max(one, 1e-9)) for one in (value, low, high))
    return (value - low) / (high - low) if high > low else 0.5


def _marks(low: float, high: float, log: bool) -> list[float]:
    """Round numbers from below the least to above the greatest."""
    if log:
        first, last = math.floor(math.log10(max(low, 1e-9))), math.ceil(math.log10(max(high, 1e-9)))
        return [10.0**power for power in range(first, max(last, first + 1) + 1)]
    step = nice_step(high)
    return [number * step for number in range(math.ceil(high / step) + 1)]


def nice_step(most: float) -> float:
    """1, 2 or 5 times a power of ten, so that there are about five marks."""
    rough = max(most, 1e-9) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)


def _shown(mark: float) -> str:
    return f"{mark:,.0f}" if mark >= 1 and mark == round(mark) else f"{mark:g}"
