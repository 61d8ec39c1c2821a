"""A chart of lines on two axes, each linear or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.svg import COLOURS, Drawing

_WIDTH, _HEIGHT = 720.0, 340.0
_LEFT, _RIGHT, _BOTTOM = 60.0, 40.0, 50.0
_LINE_HEIGHT = 22.0
_CHARACTER_WIDTH = 7.5


@dataclass(frozen=True)
class Line:
    """A line with its points; `colour` is the index of its system."""

    name: str
    colour: int
    points: tuple[tuple[float, float], ...]
    dashed: bool = False
    dots: bool = True


@dataclass(frozen=True)
class Axis:
    """The name and scale of an axis."""

    name: str
    log: bool


def draw_lines(title: str, x_axis: Axis, y_axis: Axis, lines: Sequence[Line]) -> str:
    """Return the chart as SVG."""
    drawing = Drawing(_WIDTH, _HEIGHT, title)
    drawing.text(10, 22, title, "title")
    top = _draw_legend(drawing, lines) + 36
    bottom = _HEIGHT - _BOTTOM
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x_ticks, y_ticks = _ticks(min(xs), max(xs), x_axis.log), _ticks(min(ys), max(ys), y_axis.log)

    def to_pixels(x: float, y: float) -> tuple[float, float]:
        offset = _share(x, x_ticks, x_axis.log) * (_WIDTH - _LEFT - _RIGHT)
        return _LEFT + offset, bottom - _share(y, y_ticks, y_axis.log) * (bottom - top)

    for tick in y_ticks:
        _, y = to_pixels(x_ticks[0], tick)
        drawing.line((_LEFT, y), (_WIDTH - _RIGHT, y), "grid")
        drawing.text(_LEFT - 8, y + 4, _tick_label(tick), "faint", "end")
    for tick in x_ticks:
        x, _ = to_pixels(tick, y_ticks[0])
        drawing.line((x, bottom), (x, bottom + 5), "grid")
        drawing.text(x, bottom + 20, _tick_label(tick), "faint", "middle")
    drawing.text((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 40, x_axis.name, "faint", "middle")
    drawing.text(10, top - 12, y_axis.name, "faint")
    for line in lines:
        points = [to_pixels(x, y) for x, y in line.points]
        drawing.path(points, _style(line))
        for x, y in points if line.dots else ():
            drawing.bar(x - 3, y - 3, 6, 6, f"s{line.colour % COLOURS}")
    return str(drawing)


def _draw_legend(drawing: Drawing, lines: Sequence[Line]) -> float:
    """Draw the names of the lines, in as many rows as they need; return the position of the last row."""
    x, y = 10.0, 46.0
    for line in lines:
        width = 50 + _CHARACTER_WIDTH * len(line.name)
        if x > 10 and x + width > _WIDTH:
            x, y = 10.0, y + _LINE_HEIGHT
        drawing.path([(x, y - 4), (x + 24, y - 4)], _style(line))
        drawing.text(x + 30, y, line.name)
        x += width
    return y


def _style(line: Line) -> str:
    return f"s{line.colour % COLOURS}" + (" dashed" if line.dashed else "")


def _share(value: float, ticks: Sequence[float], log: bool) -> float:
    low, high = ticks[0], ticks[-1]
    if log:
        value, low, high = (math.log10(max(number, 1e-9)) for number in (value, low, high))
    return (value - low) / (high - low) if high > low else 0.5


def _ticks(low: float, high: float, log: bool) -> list[float]:
    """Return round numbers from below the minimum to above the maximum."""
    if log:
        first, last = math.floor(math.log10(max(low, 1e-9))), math.ceil(math.log10(max(high, 1e-9)))
        return [10.0**power for power in range(first, max(last, first + 1) + 1)]
    step = nice_step(high)
    return [number * step for number in range(math.ceil(high / step) + 1)]


def nice_step(maximum: float) -> float:
    """Return 1, 2 or 5 times a power of ten that gives about five ticks."""
    rough = max(maximum, 1e-9) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)


def _tick_label(tick: float) -> str:
    return f"{tick:,.0f}" if tick >= 1 and tick == round(tick) else f"{tick:g}"
