"""Times, names and counts in the output of commands on tables."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from icemirror.cli.main import run
from icemirror.settings import TableSettings
from icemirror.tables.cursor import CursorSource
from spark_job.commands.lag import LagMeter
from tests.lab import foreign
from tests.lab.damage import set_cursor
from tests.lab.lab import Lab


def test_lag_is_measured_after_the_tables_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path)
    measure = LagMeter.measure_backlog

    def commit_and_measure(meter: LagMeter, table: TableSettings) -> object:
        lab.commit_events("I1@1")
        time.sleep(0.02)
        return measure(meter, table)

    monkeypatch.setattr(LagMeter, "measure_backlog", commit_and_measure)
    assert run(["status", "--json", "-c", str(lab.settings.source_path)]) == 0
    (status,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert status["lag"]["events"] == 1
    assert status["lag"]["seconds"] > 0.0


def test_notes_of_a_verification_name_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    set_cursor(
        lab, lambda cursor: cursor.model_copy(update={"sources": (at_unknown_snapshot(cursor.source),)})
    )
    assert run(["verify", "-c", str(lab.settings.source_path), "-t", "lab.world"]) == 5
    shown = capsys.readouterr().out
    assert "icemirror replay --full --table lab.world" in shown
    assert "--table …" not in shown


def at_unknown_snapshot(source: CursorSource) -> CursorSource:
    """Return the source at a snapshot that the changelog does not have."""
    return source.model_copy(update={"snapshot_id": 42})


def test_number_of_read_files_does_not_exceed_the_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1 I2@2")
    lab.merge()
    foreign.delete_rows(lab.mirror, [1])
    assert run(["explain-key", "-c", str(lab.settings.source_path), "-t", "lab.world", "--key", "1"]) == 5
    assert "read 1 of 1 changelog file, 1 of 1 data file;" in capsys.readouterr().out
