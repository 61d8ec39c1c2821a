"""The soak: seeds run in separate processes, totals continue in the next run, failed seeds are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.sim.toy_campaign import TOY, UNREADY
from tests.soak.__main__ import main, soak
from tests.soak.campaign import SeedResult, Total
from tests.soak.publish import BEGIN, END, publish
from tests.soak.report import Report
from tests.soak.worker import Unready, Worker, try_seed, try_seeds


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with closing(Worker(TOY)) as worker:
        yield worker


@pytest.mark.parametrize(
    ("defect", "why"),
    [("fails", "the story of 3"), ("dies", "the process died: 7"), ("hangs", "more than 2 s")],
)
def test_seed_that_fails_dies_or_hangs_is_reported_and_the_next_seed_runs(
    worker: Worker, defect: str, why: str
) -> None:
    assert why in str(worker.try_seed(3, defect).why)
    result = worker.try_seed(3)
    assert (result.counts, result.why) == ({"odd": 1}, None)


def test_seed_over_its_cpu_limit_fails() -> None:
    result = try_seed(replace(TOY, most_seconds=0.0), 1)
    assert result.why == "it took 0 s of the processor"


def test_worker_that_cannot_start_reports_the_reason() -> None:
    with pytest.raises(Unready, match="RuntimeError: no such server"):
        Worker(UNREADY)


def test_next_run_continues_the_counts_and_failed_seeds_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "soak.json"
    assert not soak(TOY, Report.load(path), 0.5)
    first = Report.load(path).of("toy")
    assert first.seeds == first.next_seed > 10
    assert 9 in first.failed
    assert "the story of 9" in (output := capsys.readouterr().out)
    assert "FAILED: python -m toy 9" in output
    soak(TOY, Report.load(path), 0.2)
    assert Report.load(path).of("toy").next_seed > first.next_seed


@pytest.mark.parametrize(("ci", "passed"), [("", True), ("true", False)])
def test_unavailable_campaign_is_skipped_and_fails_under_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, passed: bool
) -> None:
    monkeypatch.setenv("CI", ci)
    assert soak(UNREADY, Report.load(tmp_path / "soak.json"), 1) is passed
    assert "toy was skipped: RuntimeError: no such server" in capsys.readouterr().out


def test_total_lists_seeds_failures_and_counts() -> None:
    total = Total()
    total.add(SeedResult(5, 0.5, {"merged": 2}, 1 << 20))
    total.add(SeedResult(6, 1.5, {}, 3 << 20, why="wrong"))
    assert total.lines() == [
        "2 seeds, 1 failed: [6], 0 fixed",
        "1.00 s each, 1.5 s and 3 MiB at most",
        "         2 merged",
    ]


def test_failed_seed_is_retried_first_and_counted_once() -> None:
    total = Total(next_seed=9, seeds=9, failed=[2, 4])
    seeds = [
        result.seed for result in try_seeds(replace(TOY, processes=1), 0.2, total.next_seed, total.failed)
    ]
    assert seeds[:3] == [2, 4, 9]
    total.add(SeedResult(2, 0.5))
    total.add(SeedResult(4, 0.5, why="still wrong"))
    assert (total.seeds, total.failed, total.fixed) == (9, [4], [2])


def test_another_machine_continues_from_the_published_report(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    report = Report(tmp_path / "here.json", planted={"a": 3, "b": 0, "c": None})
    report.of("toy").add(SeedResult(1233, 2.0, {"merged": 2}, 1 << 20))
    publish(report, tmp_path)
    assert page.read_text().splitlines() == [
        "before",
        BEGIN,
        "",
        "| campaign | seeds | failing | failed once, now fixed | time per seed | peak memory |",
        "|---|---:|---:|---:|---:|---:|",
        "| `toy` | 1 | 0 | 0 | 2.0 s | 1 MiB |",
        "",
        "2 of 3 deliberately planted defects were detected.",
        "",
        END,
        "after",
    ]
    other = Report.load(tmp_path / "elsewhere.json", tmp_path / "soak.json")
    assert other.of("toy").next_seed == 1234
    assert other.path == tmp_path / "elsewhere.json"


def test_help_lists_every_campaign() -> None:
    output = CliRunner().invoke(main, ["--help"]).output
    for name in ("protocol", "planted", "engine", "mutation", "schedules", "faults", "publish"):
        assert f"\n  {name}" in output
