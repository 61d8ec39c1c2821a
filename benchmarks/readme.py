"""Writes the chart of the README from the published figures: `python -m benchmarks.readme`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.result import Latency, Run, WorkloadRun
from benchmarks.summary import warm_seconds
from benchmarks.svg import Drawing
from benchmarks.systems.catalogue import OURS, PEER

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "explanation" / "performance.json"
CHART = ROOT / "docs" / "img" / "merge-into.svg"
# Workload and part of the three comparisons in the README.
COMPARED = (("small", "small-50m"), ("large", "large"), ("wide", "wide"))
_WIDTH, _LEFT, _RIGHT = 760.0, 170.0, 90.0
_BAR, _GAP, _TOP = 20.0, 20.0, 64.0
_TITLE = "Merging 2,000 changes, seconds (shorter is better)"


@dataclass(frozen=True)
class Comparison:
    """Median seconds of one batch: ours and those of Iceberg's MERGE INTO."""

    title: str
    rows: int
    ours: float
    theirs: float

    @property
    def factor(self) -> float:
        """Return how many times faster ours is."""
        return self.theirs / self.ours


def read_figures(path: Path = FIGURES) -> Run:
    """Return the published run."""
    return Run.model_validate_json(path.read_text(encoding="utf-8"))


def compare(run: Run) -> list[Comparison]:
    """Return the comparisons of the README, in its order."""
    return [_comparison(run.workloads(part)[name]) for part, name in COMPARED]


def visible_seconds(run: Run) -> float:
    """Return the median time from a commit until its rows are visible."""
    latency = run.outcome("latency", OURS)
    if not isinstance(latency, Latency):
        raise TypeError("the latency was not measured")
    return median(commit.visible for commit in latency.runs[0].commits)


def scan_seconds(run: Run) -> tuple[float, float]:
    """Return how long a full scan takes after the large batch: ours and that of Iceberg's MERGE INTO."""
    systems = run.workloads("large")["large"]
    return median(systems[OURS].inspection.scans), median(systems[PEER].inspection.scans)


def compare_sizes(run: Run) -> list[Comparison]:
    """Return the small batch for each table size, smallest first."""
    found = [_comparison(runs) for runs in run.workloads("small").values()]
    return sorted(found, key=lambda comparison: comparison.rows)


def _comparison(runs: dict[str, WorkloadRun]) -> Comparison:
    ours, theirs = runs[OURS], runs[PEER]
    return Comparison(ours.title, ours.rows, warm_seconds(ours).middle, warm_seconds(theirs).middle)


def draw_chart(run: Run) -> str:
    """Return two bars for each table size, on a linear scale, as SVG."""
    sizes = compare_sizes(run)
    height = _TOP + len(sizes) * (2 * _BAR + _GAP)
    drawing = Drawing(_WIDTH, height, _TITLE)
    drawing.text(10, 22, _TITLE, "title")
    for index, (style, name) in enumerate((("s0", "icemirror"), ("s1", "MERGE INTO (merge-on-read, v3)"))):
        drawing.bar(10 + 100 * index, 35, 12, 12, style)
        drawing.text(28 + 100 * index, 46, name)
    scale = (_WIDTH - _LEFT - _RIGHT) / max(comparison.theirs for comparison in sizes)
    top = _TOP
    for comparison in sizes:
        label = f"into {comparison.rows // 1_000_000} million rows"
        drawing.text(_LEFT - 12, top + _BAR + 4, label, anchor="end")
        for style, seconds in (("s0", comparison.ours), ("s1", comparison.theirs)):
            width = max(2.0, seconds * scale)
            drawing.bar(_LEFT, top + 2, width, _BAR - 4, style)
            drawing.text(_LEFT + width + 8, top + 15, f"{seconds:.2f} s")
            top += _BAR
        top += _GAP
    return str(drawing)


def main() -> None:
    """Write the chart."""
    CHART.parent.mkdir(parents=True, exist_ok=True)
    CHART.write_text(draw_chart(read_figures()), encoding="utf-8")


if __name__ == "__main__":
    main()
