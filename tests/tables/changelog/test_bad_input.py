"""Bad input gives a specific error with advice; nothing is committed, and other tables are merged."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, StringType

from icemirror.config_file.load import load_settings
from icemirror.errors import Kind
from icemirror.result import TableResult
from icemirror.telemetry.redaction import forget_secrets, register_secret
from spark_job.commands.merge_table import merge_table
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline
from tests.lab.bad_input import BAD, SECOND_TABLE, bad_value, changelog_files, drop_changelog
from tests.lab.lab import (
    ID_AND_NAME,
    Lab,
    append_files,
    changelog_schema,
    events,
    rows_table,
    sequence_text,
)


@pytest.fixture
def started(tmp_path: Path) -> Lab:
    """A mirror of two rows, an unmerged change, and a second valid table with an unmerged change."""
    lab = Lab.make(tmp_path, extra_config=SECOND_TABLE)
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    good = lab.catalog.create_table("lab.good_changelog", ID_AND_NAME)
    append_files(good, events("I1@1=fine"))
    return lab


def state(lab: Lab) -> tuple[str, dict[str, str]]:
    mirror: Table = lab.mirror
    return mirror.metadata_location, dict(mirror.metadata.properties)


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_reported_and_only_its_table_is_not_merged(started: Lab, name: str) -> None:
    damage, kind, pattern = BAD[name]
    lab = damage(started) or started
    before, files = state(lab), lab.files_on_disk()
    results = [merge_table(lab.pipeline, table) for table in lab.settings.tables]
    bad, good = results
    assert bad.outcome == "failed"
    assert bad.error is not None
    assert bad.error.kind is kind
    assert re.search(pattern, bad.error.message), bad.error.message
    assert state(lab) == before, "something was committed"
    assert {
        path for path in lab.files_on_disk() - files if "good" not in path and "_index" not in path
    } == set()
    assert (good.outcome, good.live_rows) == ("merged", 1)


def test_secrets_in_the_error_of_a_result_are_masked(started: Lab) -> None:
    drop_changelog(started)
    register_secret("there is no changelog")
    try:
        error = started.try_merge().error
    finally:
        forget_secrets()
    assert error is not None
    assert "***" in error.message
    assert "no changelog" not in error.message


IN_THE_FIRST_MERGE = (
    "unknown operation",
    "NULL operation",
    "NULL key",
    "malformed sequence",
    "NULL sequence",
    "file without the key",
    "unreadable file",
    "truncated file",
    "missing file",
    "missing key column",
)


@pytest.mark.parametrize("name", IN_THE_FIRST_MERGE)
def test_bad_input_of_a_first_merge_creates_no_mirror(tmp_path: Path, name: str) -> None:
    lab = Lab.make(tmp_path, extra_config=SECOND_TABLE)
    damage, kind, _ = BAD[name]
    lab = damage(lab) or lab
    result = lab.try_merge()
    assert result.error is not None
    assert (result.error.kind, result.cursor, result.slices) == (kind, None, ())
    assert not lab.catalog.table_exists("lab.world")
    assert lab.files_on_disk() == set()


def test_slices_before_the_bad_one_stay_merged(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, extra_config="batch_size: 1\n")
    first = lab.commit_events("I1@1")
    bad_value("cdc_operation", "?")(lab)
    result = lab.try_merge()
    assert result.outcome == "failed"
    assert len(result.slices) == 1
    assert lab.rows() == {1: "I1@1"}
    table_plan = lab.pipeline.planner.require_plan(lab.table)
    assert table_plan.mirror is not None
    assert table_plan.mirror.cursor is not None
    assert table_plan.mirror.cursor.source.snapshot_id == first


def test_table_continues_after_its_input_is_repaired(started: Lab) -> None:
    started.commit_events("U1@2=two")
    path = changelog_files(started)[-1]
    content = path.read_bytes()
    path.unlink()
    assert started.try_merge().outcome == "failed"
    path.write_bytes(content)
    started.merge()
    assert started.rows() == {1: "two", 2: "I2@1"}


def run(config: Path) -> list[TableResult]:
    settings = load_settings(config, os.environ)
    pipeline = Pipeline(settings, Catalogs(settings), LazyEngine(InProcessEngine), run_id="test")
    return [merge_table(pipeline, table) for table in settings.tables]


@pytest.mark.parametrize(
    "catalog",
    [
        '{type: rest, uri: "http://127.0.0.1:9"}',
        '{type: sql, uri: "sqlite:////nowhere/at/all/c.db", warehouse: "file:///nowhere"}',
    ],
)
def test_unreachable_catalog_fails_only_the_tables_that_need_it(started: Lab, catalog: str) -> None:
    config = started.folder / "icemirror.yaml"
    text = config.read_text().replace("trigger:", f"  catalogs: {{away: {catalog}}}\ntrigger:", 1)
    config.write_text(
        text.replace("mirror_table: world\n", "mirror_table: world\n    changelog_catalog: away\n", 1)
    )
    bad, good = run(config)
    assert bad.error is not None
    assert bad.error.kind is Kind.TRANSIENT
    assert good.outcome == "merged"


def test_floating_point_key_is_refused(tmp_path: Path) -> None:
    schema = changelog_schema(("ratio", DoubleType()), ("name", StringType()), keys=())
    lab = Lab.make(tmp_path, schema, options="primary_keys: [ratio]")
    row = {"ratio": 0.5, "name": "x", "cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    lab.commit(rows_table(schema, [row]))
    result = lab.try_merge()
    assert result.error is not None
    assert "cannot be part of the key" in result.error.message
    assert not lab.catalog.table_exists("lab.world")
