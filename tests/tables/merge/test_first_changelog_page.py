"""docs/tutorials/first-changelog.md works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from icemirror.config_file.load import load_settings
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline
from spark_job.worker.merge_table import merge_table

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorials" / "first-changelog.md"


def run_block(text: str) -> None:
    exec(compile(text, str(_PAGE), "exec"), {})  # noqa: S102 (our own text)


def test_a_changelog_written_as_the_page_says_is_merged_as_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = _PAGE.read_text(encoding="utf-8").replace("/data/", f"{tmp_path}/")
    create, append, read = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (yaml,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    config = tmp_path / "icemirror.yaml"
    config.write_text(yaml)
    settings = load_settings(config, {})
    (table,) = settings.tables
    pipeline = Pipeline(
        settings, Catalogs(settings), LazyEngine(InProcessEngine), run_id="page", key_check_rows=None
    )
    for block, events in ((create, 4), (append, 1)):
        run_block(block)
        result = merge_table(pipeline, table)
        assert (result.outcome, sum(part.events for part in result.slices)) == ("merged", events)
    capsys.readouterr()
    run_block(read)
    assert f"```\n{capsys.readouterr().out}```\n" in page
