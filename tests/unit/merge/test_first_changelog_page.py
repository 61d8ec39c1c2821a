"""docs/tutorials/first-changelog.md works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from icemirror.config_file.load import load_settings
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline
from spark_job.worker.merge_table import merge_table

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorials" / "first-changelog.md"


def test_a_changelog_written_as_the_page_says_is_merged_as_it_says(tmp_path: Path) -> None:
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", _PAGE.read_text(encoding="utf-8"), flags=re.DOTALL))
    blocks = {kind: text.replace("/data/", f"{tmp_path}/") for kind, text in blocks.items()}
    exec(compile(blocks["python"], str(_PAGE), "exec"), {})  # noqa: S102
    config = tmp_path / "icemirror.yaml"
    config.write_text(blocks["yaml"])
    settings = load_settings(config, {})
    catalogs = Catalogs(settings)
    pipeline = Pipeline(settings, catalogs, LazyEngine(InProcessEngine), run_id="page", key_check_rows=None)
    (table,) = settings.tables
    result = merge_table(pipeline, table)
    assert (result.outcome, sum(part.events for part in result.slices)) == ("merged", 4)
    mirror = catalogs.load_mirror(table)
    assert mirror is not None
    assert mirror.scan().to_arrow().to_pylist() == [{"id": 1, "customer": "Ada", "total": None}]
