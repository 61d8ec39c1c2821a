"""Bad rows with `on_bad_row: quarantine` are rejected exactly once and counted; the rest of the slice is merged."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from icemirror.errors import Kind
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.engine import InProcessEngine
from spark_job.storage.file_cache import clear_file_caches
from tests.lab.bad_rows import MIXED, REASONS, REJECTED, bad_events, make, rejected, rejects
from tests.lab.explain import explain
from tests.lab.lab import ID_AND_NAME, Lab


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("shards", [1, 3])
def test_bad_rows_are_rejected_and_the_others_merged(tmp_path: Path, shards: int, version: int) -> None:
    lab = make(tmp_path, f"format_version: {version}", engine=InProcessEngine(shards))
    lab.commit(bad_events(MIXED), bad_events("I4@1 _5@1=e"))
    (slice_result,) = lab.merge().slices
    assert lab.rows() == {1: "b", 3: "I3@5", 4: "I4@1"}
    assert rejected(lab) == [*REJECTED[:1], ("null-operation", "e"), *REJECTED[1:]]
    assert (slice_result.events, slice_result.inserted, slice_result.rejected) == (8, 3, 4)
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary.additional_properties["icemirror.rejected"] == "4"
    assert lab.merge().slices == ()


def test_rejected_row_has_reason_time_and_origin(tmp_path: Path) -> None:
    lab = make(tmp_path)
    snapshot_id = lab.commit(bad_events("I1@1"), bad_events("I2@1 X7@9=x"))
    lab.merge()
    (row,) = rejects(lab).scan().to_arrow().to_pylist()
    at = row.pop("icemirror_rejected_at")
    assert datetime.now(UTC) - timedelta(minutes=5) < at <= datetime.now(UTC)
    files = {task.file.file_path for task in lab.changelog.refresh().scan().plan_files()}
    assert row.pop("icemirror_file") in files
    assert row == {
        "icemirror_reason": "unknown-operation",
        "icemirror_message": "the operation is none of operation_values",
        "icemirror_snapshot_id": snapshot_id,
        "icemirror_commit": 1,
        "icemirror_position": 1,
        "id": 7,
        "name": "x",
        "cdc_operation": "UPSERT",
        "sequence_number": "0000000000000009/0000000000000000",
    }


@pytest.mark.parametrize(("word", "reason"), REASONS.items())
def test_each_kind_of_bad_row_has_its_reason(tmp_path: Path, word: str, reason: str) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events(f"I1@1 {word} U1@2=b {word}"))
    lab.merge()
    assert lab.rows() == {1: "b"}
    assert rejected(lab) == [(reason, word)] * 2


def test_row_with_several_faults_is_rejected_once(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events("X?@! X3@? I1@1 _?@1"))
    lab.merge()
    assert lab.rows() == {1: "I1@1"}
    assert rejected(lab) == [
        ("null-operation", "_?@1"),
        ("unknown-operation", "X3@?"),
        ("unknown-operation", "X?@!"),
    ]


@pytest.mark.parametrize("key", ["id", "id, name"])
def test_file_with_only_bad_rows_does_not_stop_the_merge(tmp_path: Path, key: str) -> None:
    lab = make(tmp_path, f"primary_keys: [{key}]", engine=InProcessEngine(2))
    lab.commit(bad_events("I1@1=a"))
    lab.merge()
    lab.commit(bad_events("I?@1 X2@1"))
    (slice_result,) = lab.merge().slices
    assert (slice_result.rejected, slice_result.inserted) == (2, 0)
    assert lab.rows() == {1: "a"}
    assert lab.merge().outcome == "up-to-date"


def test_changelog_without_bad_rows_gets_no_table(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    assert not lab.catalog.table_exists("lab.world_rejects")


def test_default_stops_and_suggests_quarantine(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit(bad_events(MIXED))
    failed = lab.try_merge()
    assert failed.error is not None
    assert "unknown operation 'UPSERT' in row 3" in failed.error.message
    assert "on_bad_row to quarantine" in failed.error.message
    assert not lab.catalog.table_exists("lab.world_rejects")
    rejecting = lab.reconfigure("on_bad_row: quarantine")
    rejecting.merge()
    assert rejected(rejecting) == REJECTED


def test_rejects_table_has_the_configured_name(tmp_path: Path) -> None:
    lab = make(tmp_path, "rejects_table: aside.bad")
    lab.commit(bad_events("I1@1 X2@1"))
    lab.merge()
    assert lab.catalog.load_table("aside.bad").scan().to_arrow().num_rows == 1


def test_table_that_is_no_rejects_table_is_not_written_to(tmp_path: Path) -> None:
    lab = make(tmp_path)
    other_table = lab.catalog.create_table("lab.world_rejects", ID_AND_NAME)
    lab.commit(bad_events("I1@1 X2@1"))
    failed = lab.try_merge()
    assert failed.error is not None
    assert failed.error.kind is Kind.INVALID
    assert "is not the rejects table of lab.world" in failed.error.message
    assert other_table.refresh().current_snapshot() is None
    assert lab.mirror.current_snapshot() is None


def test_more_bad_rows_than_the_limit_stop_the_merge(tmp_path: Path) -> None:
    lab = make(tmp_path)
    words = " ".join([*(f"X{key}@1" for key in range(501)), *(f"I{key}@1" for key in range(499))])
    lab.commit(bad_events(words))
    failed = lab.try_merge()
    assert failed.error is not None
    assert failed.error.kind is Kind.INVALID
    assert "501 of the next 1,000 events cannot be merged (unknown-operation: 501)" in failed.error.message
    assert not lab.catalog.table_exists("lab.world_rejects")
    assert lab.mirror.current_snapshot() is None
    assert not [path for path in lab.files_on_disk() if path.endswith((".parquet", ".puffin"))]
    raised = lab.reconfigure("on_bad_row: quarantine\nreject_limit: 0.6")
    assert [result.rejected for result in raised.merge().slices] == [501]


def test_small_slice_may_be_rejected_completely(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events(" ".join(f"X{key}@1" for key in range(999))))
    assert [result.rejected for result in lab.merge().slices] == [999]


def test_log_has_counts_and_reasons_but_no_values(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events("I1@1 X77707770777@4=secret I?@5=secret"))
    with caplog.at_level(logging.INFO):
        lab.merge()
    rejections = [record for record in caplog.records if record.getMessage() == "rows rejected"]
    assert len(rejections) == 1
    text = json.dumps([str(vars(record)) for record in caplog.records])
    assert "unknown-operation" in text
    assert "secret" not in text
    assert "77707770777" not in text


def test_verify_and_explain_account_for_rejected_events(tmp_path: Path) -> None:
    lab = make(tmp_path, engine=InProcessEngine(2))
    lab.commit(bad_events("I1@1=a I?@2 X1@3=c I3@5"))
    lab.merge()
    lab.commit(bad_events("U1@?=d"))
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    report = explain(lab, 1)
    assert (report.state.value, report.equal, report.complete) == ("present", True, True)
    assert [event.fate.value for event in report.events] == ["made-row"]
    assert [(event.reason.value, event.merged, event.position) for event in report.rejected] == [
        ("unknown-operation", True, 2),
        ("null-sequence", False, 0),
    ]
    assert report.rejected[1].words.startswith("will be rejected: a sequence column is NULL")
    assert explain(lab, 8).state.value == "never-seen"


def test_index_is_rebuilt_without_rejected_events(tmp_path: Path) -> None:
    """The bad rows have the greatest sequence. It must not become the order of a row."""
    lab = make(tmp_path, engine=InProcessEngine(2))
    lab.commit(bad_events("I1@1=a I2@2=b X1@99 I?@99 U2@!"))
    lab.merge()
    for path in (tmp_path / "warehouse").rglob("*.puffin"):
        path.unlink()
    clear_file_caches()
    reopened = lab.reconfigure("on_bad_row: quarantine")
    reopened.commit_events("U1@5=later U2@1=stale")
    (slice_result,) = reopened.merge().slices
    assert (slice_result.updated, slice_result.stale) == (1, 1)
    assert reopened.rows() == {1: "later", 2: "b"}
    assert verify_table(reopened.pipeline, reopened.table, VerifyOptions(deep=True)).equal
