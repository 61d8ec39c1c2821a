"""Counts, times and names in the output of commands."""

from __future__ import annotations

import json
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from icemirror.cli.commands.merge import render_results
from icemirror.cli.commands.status import render_status
from icemirror.cli.main import run
from icemirror.cli.terminal.console import printable
from icemirror.cli.terminal.wording import counted
from icemirror.result import TableResult
from icemirror.settings import TableSettings
from icemirror.tables.cursor import CursorSource
from spark_job.worker.lag import LagMeter
from tests.unit.merge import foreign
from tests.unit.merge.damage import set_cursor
from tests.unit.merge.lab import Lab


def drawn(what: object, width: int) -> str:
    stream = StringIO()
    Console(file=stream, width=width, highlight=False).print(what)
    return stream.getvalue()


def test_one_is_no_plural() -> None:
    assert [counted(number, "row") for number in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]


def test_tabs_of_a_driver_are_no_codes() -> None:
    assert printable("refused\n\tIs it\x1b[31m running?") == "refused\n Is it\\u001b[31m running?"


def test_a_rebuild_shows_no_zero_counts() -> None:
    rebuilt = TableResult(table="shop.orders", outcome="rebuilt", live_rows=7, seconds=1.5)
    assert drawn(render_results([rebuilt], 160), 160).splitlines()[1].split() == [
        "shop.orders",
        "rebuilt",
        "7",
        "1.50",
    ]


@pytest.mark.parametrize("width", [30, 70])
def test_lag_is_shown_however_long_a_name_is(width: int) -> None:
    table = {
        "table": "shop." + "a_long_name_" * 4,
        "state": "waiting",
        "lag": {"seconds": 12.0, "snapshots": 1, "events": 3},
        "live_rows": 5,
        "index_bytes": 5,
        "last_run": None,
        "replay": None,
        "last_replay": None,
        "error": None,
    }
    shown = drawn(render_status([table], width), width)
    assert "12.0 s" in shown
    assert "3 events" in shown


def test_lag_is_measured_after_the_tables_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path)
    measure = LagMeter.behind

    def behind(meter: LagMeter, table: TableSettings) -> object:
        lab.tell("I1@1")
        time.sleep(0.02)
        return measure(meter, table)

    monkeypatch.setattr(LagMeter, "behind", behind)
    assert run(["status", "--json", "-c", str(lab.settings.source_path)]) == 0
    (told,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert told["lag"]["events"] == 1
    assert told["lag"]["seconds"] > 0.0


def test_notes_of_a_verification_name_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = Lab.make(tmp_path)
    lab.tell("I1@1")
    lab.merge()
    set_cursor(lab, lambda cursor: cursor.model_copy(update={"sources": (elsewhere(cursor.source),)}))
    assert run(["verify", "-c", str(lab.settings.source_path), "-t", "lab.world"]) == 5
    shown = capsys.readouterr().out
    assert "icemirror replay --full --table lab.world" in shown
    assert "--table …" not in shown


def elsewhere(source: CursorSource) -> CursorSource:
    """Return the source at a snapshot that the changelog does not have."""
    return source.model_copy(update={"snapshot_id": 42})


def test_no_more_files_are_read_than_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = Lab.make(tmp_path)
    lab.tell("I1@1 I2@2")
    lab.merge()
    foreign.delete_rows(lab.mirror, [1])
    assert run(["explain-key", "-c", str(lab.settings.source_path), "-t", "lab.world", "--key", "1"]) == 5
    assert "read 1 of 1 changelog file, 1 of 1 data file;" in capsys.readouterr().out
