"""The code in docs/tutorials/first-changelog.md prints the output shown there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from icemirror.config_file.load import load_settings
from spark_job.commands.merge_table import merge_table
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorials" / "first-changelog.md"


def run_block(text: str) -> None:
    exec(compile(text, str(_PAGE), "exec"), {})  # noqa: S102 (code from this repository)


def test_code_of_the_tutorial_prints_the_documented_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    page = _PAGE.read_text(encoding="utf-8")
    create, append, read = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (yaml,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    config = tmp_path / "icemirror.yaml"
    config.write_text(yaml)
    settings = load_settings(config, {"HOME": str(tmp_path)})
    (table,) = settings.tables
    pipeline = Pipeline(
        settings, Catalogs(settings), LazyEngine(InProcessEngine), run_id="page", key_check_rows=None
    )
    for block, events in ((create, 4), (append, 1)):
        run_block(block)
        result = merge_table(pipeline, table)
        assert (result.outcome, sum(slice_.events for slice_ in result.slices)) == ("merged", events)
    capsys.readouterr()
    run_block(read)
    assert f"$ python read.py\n{capsys.readouterr().out}```\n" in page
