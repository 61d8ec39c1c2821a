"""SVG drawings with the shapes of our charts, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2937 }
.title { font-weight: 600; font-size: 15px }
.faint { fill: #6b7280 }
.grid { stroke: #d1d5db; stroke-width: 1 }
.spread { stroke: #1f2937; stroke-width: 1.5 }
.s0 { fill: #2563eb; stroke: #2563eb }
.s1 { fill: #d97706; stroke: #d97706 }
.s2 { fill: #059669; stroke: #059669 }
.s3 { fill: #db2777; stroke: #db2777 }
.s4 { fill: #7c3aed; stroke: #7c3aed }
.s5 { fill: #0891b2; stroke: #0891b2 }
path.line { fill: none; stroke-width: 2 }
path.dashed { stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb }
  .faint { fill: #9ca3af }
  .grid { stroke: #374151 }
  .spread { stroke: #e5e7eb }
}
"""
COLOURS = 6


class Drawing:
    """Collects shapes; coordinates are pixels from the top left."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._width, self._height, self._title = width, height, title
        self._shapes: list[str] = []

    def text(self, x: float, y: float, content: str, style: str = "", anchor: str = "start") -> None:
        """Add text whose baseline starts (or is centred, or ends) at a point."""
        position = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        self._shapes.append(f'<text {position} class="{style}">{escape(content)}</text>')

    def bar(self, x: float, y: float, width: float, height: float, style: str) -> None:
        """Add a filled rectangle."""
        size = f'width="{width:.1f}" height="{height:.1f}" rx="2"'
        self._shapes.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} class="{style}" stroke="none"/>')

    def line(self, start: tuple[float, float], end: tuple[float, float], style: str) -> None:
        """Add a straight line."""
        ends = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
        self._shapes.append(f'<line {ends} class="{style}"/>')

    def path(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Add points joined by lines."""
        joined = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self._shapes.append(f'<path d="M{joined}" class="line {style}"/>')

    def __str__(self) -> str:
        """Return the SVG document."""
        size = f'viewBox="0 0 {self._width:.0f} {self._height:.0f}" width="{self._width:.0f}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{escape(self._title)}</title>",
                f"<style>{_STYLE}</style>",
                *self._shapes,
                "</svg>\n",
            ]
        )
