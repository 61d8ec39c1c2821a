"""How `merge` reports a failed table, with and without a terminal."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from icemirror.cli.main import run
from icemirror.cli.terminal import console
from tests.lab.lab import Lab


def test_failed_merge_is_logged_and_reported_without_a_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path)
    lab.catalog.drop_table("lab.world_changelog")
    assert run(["merge", "-c", str(tmp_path / "icemirror.yaml")]) == 3
    shown = capfd.readouterr()
    logged, line = shown.err.splitlines()
    assert line.startswith("error: lab.world: there is no changelog lab.world_changelog.")
    record = json.loads(logged)
    assert (record["level"], record["table"], record["error"]["kind"]) == ("error", "lab.world", "invalid")
    assert "failed" in shown.out


def test_failed_merge_is_reported_once_on_a_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path)
    lab.catalog.drop_table("lab.world_changelog")
    monkeypatch.setattr(console.err, "_force_terminal", True)
    try:
        assert run(["merge", "-c", str(tmp_path / "icemirror.yaml")]) == 3
    finally:
        logging.getLogger("spark_job.commands.merge_table").setLevel(logging.NOTSET)
    assert capfd.readouterr().err.count("there is no changelog") == 1
