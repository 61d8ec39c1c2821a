"""Writes the totals of all runs into the documentation; another machine continues from there."""

from __future__ import annotations

from pathlib import Path

from tests.soak.report import Report

DOCS = Path(__file__).parents[2] / "docs" / "explanation"
FIGURES = DOCS / "soak.json"
BEGIN = "<!-- soak: generated from here on by `python -m tests.soak publish` -->"
END = "<!-- soak: generated up to here -->"


def publish(report: Report, docs: Path = DOCS) -> None:
    """Write the totals as JSON, and as a table in the page."""
    Report(docs / FIGURES.name, report.totals, report.planted).save()
    page = docs / "reliability.md"
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} lacks one of the markers {BEGIN!r} and {END!r}")
    page.write_text(f"{before}{BEGIN}\n\n{table(report)}\n\n{END}{after}", encoding="utf-8")


def table(report: Report) -> str:
    """Return a table with a row for each campaign, and a line for the planted defects."""
    rows = [
        f"| `{name}` | {total.seeds:,} | {len(total.failed)} | {len(total.fixed)} "
        f"| {total.seconds / max(total.seeds, 1):.1f} s | {total.peak_bytes >> 20} MiB |"
        for name, total in sorted(report.totals.items())
    ]
    detected = [seed for seed in report.planted.values() if seed is not None]
    planted = (
        f"\n\n{len(detected)} of {len(report.planted)} deliberately planted defects were detected."
        if detected
        else ""
    )
    head = [
        "| campaign | seeds | failing | failed once, now fixed | time per seed | peak memory |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*head, *rows]) + planted
