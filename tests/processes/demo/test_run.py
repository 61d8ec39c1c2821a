from __future__ import annotations

import shlex
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from click.testing import CliRunner

from icemirror.cli.commands.demo import demo
from icemirror.cli.demo import conclusion, run
from icemirror.cli.demo.oracle.verifier import Comparison
from icemirror.cli.demo.workspace import DemoMarker, Workspace
from icemirror.config_file.load import load_settings
from icemirror.errors import Exit, Transient
from spark_job.commands.merge_table import merge_table
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline

_MARKER = DemoMarker(seed=5, rows=300)


class FakeWatch:
    """Merges like the job of a watch, in a thread and without Spark."""

    def __init__(self, workspace: Workspace) -> None:
        self._settings = load_settings(workspace.config, {})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._merge)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _merge(self) -> None:
        pipeline = Pipeline(
            settings=self._settings,
            catalogs=Catalogs(self._settings),
            engine=LazyEngine(InProcessEngine),
            run_id="fake",
        )
        while not self._stop.wait(0.1):
            for table in self._settings.tables:
                result = merge_table(pipeline, table)
                assert result.error is None, result.error

    def check(self) -> None: ...

    def describe_job(self, *, merged: bool) -> str:
        return "no Spark at all"

    def tail(self) -> str:
        return "nothing was said"


class IdleWatch(FakeWatch):
    """Never merges anything."""

    def _merge(self) -> None: ...


def test_demo_mirrors_equal_the_oracle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "WatchProcess", FakeWatch)
    done = run.run_demo(tmp_path / "demo", keep=False, seconds=3, new_marker=_MARKER)
    output = capsys.readouterr().out
    assert done is Exit.DONE, output
    assert output.count("mirror = oracle") >= 6
    assert "SELECT category" in output
    assert f"demo --keep --dir {tmp_path}/demo" in output
    (read,) = [line.strip() for line in output.splitlines() if "load_catalog" in line]
    assert "'\"'" not in read, "the command has no unreadable quoting"
    rows = subprocess.run(shlex.split(read), capture_output=True, text=True, check=True).stdout
    assert rows.count("@shop.example") == 3

    monkeypatch.setattr(conclusion, "has_iceberg_reader", lambda: False)
    again = run.run_demo(tmp_path / "demo", keep=True, seconds=1, new_marker=_MARKER)
    output = capsys.readouterr().out
    assert again is Exit.DONE, output
    assert "DuckDB" not in output


def test_difference_exits_with_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def differ(*_: object) -> Iterator[conclusion.MirrorFinding]:
        yield conclusion.MirrorFinding(
            "products", "read by PyIceberg", Comparison(2, 1, missing=1, examples=("missing (7)",))
        )

    monkeypatch.setattr(run, "WatchProcess", FakeWatch)
    monkeypatch.setattr(conclusion, "verify_mirrors", differ)
    assert run.run_demo(tmp_path / "demo", keep=False, seconds=1, new_marker=_MARKER) is Exit.DIFFERENCE
    assert "mirror ≠ oracle  shop.products, read by PyIceberg: 1 missing" in capsys.readouterr().out


def test_mirror_that_lags_behind_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "WatchProcess", IdleWatch)
    monkeypatch.setattr(run, "_SPARK_START_SECONDS", 0.0)
    monkeypatch.setattr(run, "_LAST_MERGE_SECONDS", 0.5)
    with pytest.raises(Transient, match=r"customers, order_items, products: not merged.*\nnothing was said"):
        run.run_demo(tmp_path / "demo", keep=True, seconds=1, new_marker=_MARKER)
    assert "no demo to continue" in capsys.readouterr().err.replace("\n", " ")


def test_foreign_folder_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    result = CliRunner().invoke(demo, ["--dir", str(tmp_path)])
    assert result.exit_code == Exit.USAGE
    assert "was not created by" in result.output
