"""Figures and pictures of the README are those of the last published measurements."""

from __future__ import annotations

import re

from benchmarks.readme import CHART, compare, draw_chart, read_figures, scan_seconds, visible_seconds
from tests.unit.house.tracked import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = ROOT / "docs" / "img"


def test_comparison_with_merge_into_is_the_published_one() -> None:
    shown = {
        tuple(cells) for cells in re.findall(r"\| ([\d.]+) s \| ([\d.]+) s \| (\d+) × faster \|", README)
    }
    measured = {
        (f"{comparison.ours:.2f}", f"{comparison.theirs:.2f}", f"{comparison.factor:.0f}")
        for comparison in compare(read_figures())
    }
    assert shown == measured


def test_latency_and_scans_are_the_published_ones() -> None:
    run = read_figures()
    ours, theirs = scan_seconds(run)
    assert f"From commit to visible row: {visible_seconds(run):.2f} s (median" in " ".join(README.split())
    assert f"({ours:.1f} s against {theirs:.1f} s)" in README


def test_chart_is_drawn_from_the_published_figures() -> None:
    """If this fails: python -m benchmarks.readme."""
    assert CHART.read_text(encoding="utf-8") == draw_chart(read_figures())


def test_pictures_load_no_external_files() -> None:
    for picture in PICTURES.glob("*.svg"):
        text = picture.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"(?:href|src)=|url\((?!#)|@import|@font-face", text), picture.name


def test_demo_picture_ends_with_its_verdict() -> None:
    text = (PICTURES / "demo.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    assert text.count("mirror = oracle") >= 9
