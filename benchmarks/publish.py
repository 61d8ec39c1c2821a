"""Writes a run into the documentation: the generated part of performance.md, its charts and its figures."""

from __future__ import annotations

from pathlib import Path

from benchmarks.charts import draw_charts
from benchmarks.report import write_report
from benchmarks.result import Run

BEGIN = "<!-- benchmarks: generated from here on by `python -m benchmarks write` -->"
END = "<!-- benchmarks: generated up to here -->"


def publish(run: Run, docs: Path) -> list[Path]:
    """Write all files and return their paths."""
    page = docs / "performance.md"
    text = page.read_text(encoding="utf-8") if page.exists() else f"# Performance\n\n{BEGIN}\n{END}\n"
    files = {
        page: replace_block(text, write_report(run)),
        **{docs / "img" / name: chart for name, chart in draw_charts(run).items()},
        docs / "performance.json": _figures(run),
    }
    (docs / "img").mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        path.write_text(content, encoding="utf-8")
    return list(files)


def _figures(run: Run) -> str:
    """Return the figures as JSON, one line per cell."""
    cells = ",\n".join(cell.model_dump_json(exclude_none=True) for cell in run.cells)
    return f'{{"version": {run.version}, "cells": [\n{cells}\n]}}\n'


def replace_block(text: str, block: str) -> str:
    """Return the page with a new generated part and an unchanged rest."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks one of the markers {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"
