"""Writes what all runs have shown into the documentation, and where the next run on another machine goes on from."""

from __future__ import annotations

from pathlib import Path

from tests.soak.report import Report

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = DOCS / "soak.json"
BEGIN = "<!-- soak: generated from here on by `python -m tests.soak publish` -->"
END = "<!-- soak: generated up to here -->"


def publish(report: Report, docs: Path = DOCS) -> None:
    """The totals as figures, and as a table in the page."""
    Report(docs / FIGURES.name, report.totals, report.planted).save()
    page = docs / "reliability.md"
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} lacks one of the markers {BEGIN!r} and {END!r}")
    page.write_text(f"{before}{BEGIN}\n\n{table(report)}\n\n{END}{after}", encoding="utf-8")


def table(report: Report) -> str:
    """A row for each campaign, and one for the planted mistakes."""
    rows = [
        f"| `{name}` | {total.seeds:,} | {len(total.failed)} | {len(total.mended)} "
        f"| {total.seconds / max(total.seeds, 1):.1f} s | {total.peak_bytes >> 20} MiB |"
        for name, total in sorted(report.totals.items())
    ]
    found = [seed for seed in report.planted.values() if seed is not None]
    planted = (
        f"\n\nPlanted mistakes: {len(found)} of {len(report.planted)} found, the last by seed {max(found)}."
        if found
        else ""
    )
    head = ["| campaign | seeds | failed | mended | a seed | most memory |", "|---|---:|---:|---:|---:|---:|"]
    return "\n".join([*head, *rows]) + planted
