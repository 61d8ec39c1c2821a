"""The soak goes on counting, and stops at what fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import soak as subject
from tests.soak import Report, soak


def test_later_run_goes_on_counting(tmp_path: Path) -> None:
    path = tmp_path / "soak.json"
    for total in (1, 2):
        report = Report.load(path)
        assert soak(report, path, seconds=0.01)
        assert Report.load(path).seeds == total


def test_seed_that_fails_is_kept_and_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(folder: Path, key: str, seed: int) -> None:
        raise AssertionError(f"{folder} {key} {seed}")

    monkeypatch.setattr(subject, "run_schedule", fail)
    path = tmp_path / "soak.json"
    assert not soak(Report(), path, seconds=60)
    ((key, seed),) = Report.load(path).failed
    assert f"key {key}, seed {seed}" in capsys.readouterr().out
