"""Placeholders for unchanged values: the mirror keeps its value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import StringType

from icemirror.protocol.replay import Replay
from spark_job.changelog.read_rows import read_at_positions
from spark_job.commands.explain.explain_key import explain_key
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.engine import InProcessEngine
from spark_job.merge import unchanged_values, write_winners
from spark_job.rebuild.replay import replay_step
from tests.lab import foreign
from tests.lab.column_changes import change_columns
from tests.lab.lab import rows_table
from tests.lab.replays import skip_files
from tests.tables.profiles.debezium import SCHEMA, TEXT_KEY, UNCHANGED, Source

KEYS = pytest.mark.parametrize("schema", [SCHEMA, TEXT_KEY], ids=["long", "text"])
SHARDS = pytest.mark.parametrize("shards", [1, 3])
NULL = "on_missing_value: set-null"


def require_verified(source: Source) -> None:
    report = verify_table(source.lab.pipeline, source.lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings


@KEYS
@SHARDS
def test_unchanged_value_is_kept_from_the_mirror(tmp_path: Path, schema: Schema, shards: int) -> None:
    source = Source(tmp_path, schema=schema, engine=InProcessEngine(shards))
    source.commit(*(source.row(key, 1, "a", f"body {key}", op="c") for key in range(20)))
    source.lab.merge()
    source.commit(*(source.row(key, 2, "b") for key in range(0, 20, 3)))
    source.lab.merge()
    assert source.rows() == {key: ("a" if key % 3 else "b", f"body {key}") for key in range(20)}
    require_verified(source)


@KEYS
@SHARDS
def test_unchanged_value_is_kept_from_an_event_of_the_same_slice(
    tmp_path: Path, schema: Schema, shards: int
) -> None:
    source = Source(tmp_path, schema=schema, engine=InProcessEngine(shards))
    source.commit(source.row(1, 1, "a", "old", op="c"), source.row(2, 1, "a", "old", op="c"))
    source.lab.merge()
    source.lab.commit(
        source.file(
            source.row(1, 4, "d"), source.row(1, 3, "c")
        ),  # the order of the sequences differs from the order of the rows
        source.file(source.row(1, 2, "b", "new"), source.row(3, 5, "a", "first", op="c")),
        source.file(source.row(3, 6, "b"), source.row(2, 7, "b")),
    )
    assert len(source.lab.merge().slices) == 1
    assert source.rows() == {1: ("d", "new"), 2: ("b", "old"), 3: ("b", "first")}
    require_verified(source)


@pytest.mark.parametrize("merged", [False, True], ids=["in one slice", "from the mirror's row"])
def test_column_added_after_the_row_is_null_in_it(tmp_path: Path, merged: bool) -> None:
    source = Source(tmp_path)
    source.commit(*(source.row(key, key, "a", "b", op="c") for key in range(1, 6)))
    if merged:
        source.lab.merge()
    change_columns(source.lab, lambda to: to.add_column("more", StringType()))
    later = [{**source.row(key, key + 9, "n", "b"), "more": UNCHANGED} for key in (2, 4)]
    source.lab.commit(rows_table(source.lab.changelog.schema(), later))
    source.lab.merge()
    assert source.rows() == {key: ("n" if key in (2, 4) else "a", "b") for key in range(1, 6)}
    assert source.lab.mirror.scan().to_arrow()["more"].null_count == 5


def test_unchanged_value_is_kept_through_many_events(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.commit(source.row(1, 1, "a", "far back", op="c"), source.row(2, 1, "a", "near", op="c"))
    source.lab.merge()
    rows = [source.row(1, lsn, f"n{lsn}") for lsn in range(3, 100)]
    rows += [source.row(2, lsn, f"n{lsn}", "nearer" if lsn == 60 else UNCHANGED) for lsn in range(3, 100)]
    source.commit(source.row(1, 2, "b", "in the slice"), *rows)
    source.lab.merge()
    assert source.rows() == {1: ("n99", "in the slice"), 2: ("n99", "nearer")}
    require_verified(source)


def test_events_older_than_the_row_are_ignored(tmp_path: Path) -> None:
    """A duplicate of an old event precedes the partial one, but not the mirror's row."""
    source = Source(tmp_path)
    source.commit(source.row(1, 7, "a", "seven", op="c"), source.row(1, 8, "b", "eight"))
    source.lab.merge()
    source.commit(source.row(1, 7, "a", "seven", op="c"), source.row(1, 10, "c"))
    source.lab.merge()
    assert source.rows() == {1: ("c", "eight")}
    require_verified(source)


def test_late_partial_event_has_no_effect(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.commit(source.row(1, 7, "a", "seven", op="c"))
    source.lab.merge()
    source.commit(source.row(1, 6, "late"))
    source.lab.merge()
    assert source.rows() == {1: ("a", "seven")}


UNKNOWN_VALUES: dict[str, list[dict[str, Any]]] = {
    "unknown key": [{"key": 1, "lsn": 5}],
    "deleted in the slice": [
        {"key": 1, "lsn": 3, "body": "b", "op": "c"},
        {"key": 1, "lsn": 4, "op": "d"},
        {"key": 1, "lsn": 5},
    ],
    "moved from another key": [
        {"key": 2, "lsn": 3, "body": "b", "op": "c"},
        {"key": 1, "lsn": 5, "before": 2},
    ],
}


@pytest.mark.parametrize("case", UNKNOWN_VALUES)
@pytest.mark.parametrize("together", [True, False])
def test_unknown_value_blocks_the_table_or_is_null(tmp_path: Path, case: str, together: bool) -> None:
    extra_config = "" if together else "batch_size: 1\n"
    source = Source(tmp_path, extra_config=extra_config)
    rows = [source.row(**event) for event in UNKNOWN_VALUES[case]]
    for batch in [rows] if together else [[row] for row in rows]:
        source.commit(*batch)
    result = source.lab.try_merge()
    assert result.error is not None
    assert result.error.kind == "invalid"
    row = len(rows) - 1 if together else 0
    assert f"row {row} states that body has not changed, but its key was" in result.error.message
    assert NULL in result.error.message
    source.lab = source.lab.reconfigure(f"profile: debezium\nconnector: postgres\n{NULL}", extra_config)
    source.lab.merge()
    assert source.rows() == {1: ("n", None)}
    require_verified(source)


def test_required_column_is_never_set_to_null(tmp_path: Path) -> None:
    fields = [field.model_copy(update={"required": field.name in ("id", "body")}) for field in SCHEMA.fields]
    source = Source(tmp_path, NULL, Schema(*fields, identifier_field_ids=[1]))
    source.commit(source.row(1, 5))
    error = source.lab.try_merge().error
    assert error is not None
    assert "body cannot be NULL" in error.message


def test_row_deleted_by_another_writer_is_restored_completely(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.commit(
        source.row(1, 1, "a", "first", op="c"), source.row(1, 2, "b", "second"), source.row(1, 3, "c")
    )
    source.lab.merge()
    foreign.delete_rows(source.lab.mirror, [1])
    source.commit(source.row(1, 4, "d"))
    source.lab.merge()
    assert source.rows() == {1: ("d", "second")}
    require_verified(source)


def test_values_changed_by_another_writer_are_kept(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.commit(source.row(1, 1, "a", "first", op="c"))
    source.lab.merge()
    foreign_rows = source.lab.mirror.scan().to_arrow().to_pylist()
    foreign_rows[0]["body"] = "theirs"
    source.lab.mirror.overwrite(
        source.file({**source.row(1, 1), **foreign_rows[0]}).select(["id", "name", "body"])
    )
    source.commit(source.row(1, 2, "b"))
    source.lab.merge()
    assert source.rows() == {1: ("b", "theirs")}


@pytest.mark.parametrize(
    "options", ["format_version: 3", 'partition_by: ["body"]', 'partition_by: ["bucket[2](id)"]']
)
def test_every_layout_of_the_mirror_keeps_values(tmp_path: Path, options: str) -> None:
    source = Source(tmp_path, options)
    for lsn in range(1, 12):
        source.commit(*(source.row(key, lsn, f"n{lsn}", "b" if lsn == 1 else UNCHANGED) for key in range(5)))
        source.lab.merge()  # some merges compact data files
    assert source.rows() == dict.fromkeys(range(5), ("n11", "b"))
    require_verified(source)


@pytest.mark.parametrize("shards", [1, 2])
def test_partial_replay_reads_earlier_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    """The mirror missed the last two commits. Only the last is replayed; its unchanged value is in the other."""
    source = Source(tmp_path, engine=InProcessEngine(shards))
    source.commit(source.row(1, 1, "a", "first", op="c"))
    source.lab.merge()
    with skip_files(monkeypatch, 0, 1):
        source.commit(source.row(1, 2, "b", "second"))
        last = source.commit(source.row(1, 3, "c"))
        source.lab.merge()
    assert source.rows() == {1: ("a", "first")}
    replay = Replay("r", 0.0, from_snapshot=last)
    while not (step := replay_step(source.lab.pipeline, source.lab.table, replay)).done:
        replay = replace(replay, progress=step.progress)
    assert source.rows() == {1: ("c", "second")}
    require_verified(source)


def test_only_rows_and_columns_with_placeholders_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(tmp_path)
    source.commit(*(source.row(key, 1, "a", "b", op="c") for key in range(50)))
    source.lab.merge()
    source.commit(*(source.row(key, 2, "c", UNCHANGED if key in (3, 7) else "d") for key in range(50)))
    reads: list[tuple[int, list[str]]] = []
    original = read_at_positions

    def record_read(io: Any, files: Any, file: Any, row: Any, ids: Any, schema: Any, *rest: Any) -> Any:
        reads.append((len(row), [field.name for field in schema.fields]))
        return original(io, files, file, row, ids, schema, *rest)

    monkeypatch.setattr(unchanged_values, "read_at_positions", record_read)
    source.lab.merge()
    assert reads == [(2, ["body"])]


def test_tables_without_a_placeholder_skip_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_winners, "UnchangedValues", None)
    source = Source(tmp_path)
    assert source.lab.table.resolved_unchanged_value == UNCHANGED
    source.lab = source.lab.reconfigure("profile: debezium\nconnector: mysql\nsequence_column: __source_lsn")
    assert source.lab.table.resolved_unchanged_value is None
    source.commit(source.row(1, 1, "a", UNCHANGED, op="c"))
    source.lab.merge()
    assert source.rows() == {1: ("a", UNCHANGED)}


def test_verify_and_explain_report_a_placeholder_in_the_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(tmp_path)
    source.commit(source.row(1, 1, "a", "first", op="c"), source.row(2, 1, "a", "first", op="c"))
    source.lab.merge()
    source.commit(source.row(1, 2, "b"))
    with monkeypatch.context() as patch:
        patch.setattr(unchanged_values.UnchangedValues, "fill", lambda _self, _winners, rows: rows)
        source.lab.merge()
    report = verify_table(source.lab.pipeline, source.lab.table, VerifyOptions(deep=True))
    assert [(finding.kind.value, finding.count) for finding in report.findings] == [("different-row", 1)]
    assert report.findings[0].places[0].endswith("in body")
    explained = explain_key(source.lab.pipeline, source.lab.table, "1")
    assert [finding.kind.value for finding in explained.findings] == ["different-row"]


def test_explain_compares_with_the_value_of_an_earlier_event(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.commit(source.row(1, 1, "a", "first", op="c"), source.row(1, 2, "b"))
    source.lab.merge()
    source.commit(source.row(1, 3, "c"))
    source.lab.merge()
    explained = explain_key(source.lab.pipeline, source.lab.table, "1")
    assert explained.equal, explained.findings
    assert explained.row is not None
    assert explained.row.values == {"id": 1, "name": "c", "body": "first"}


def test_placeholder_is_configurable(tmp_path: Path) -> None:
    source = Source(tmp_path, "unchanged_value: '~'")
    source.commit(source.row(1, 1, "a", UNCHANGED, op="c"))
    source.lab.merge()
    source.commit(source.row(1, 2, "b", "~"))
    source.lab.merge()
    assert source.rows() == {1: ("b", UNCHANGED)}


@pytest.mark.parametrize("chained", [False, True])
def test_large_kept_values_are_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chained: bool
) -> None:
    """The events are small; their unchanged values are large."""
    source = Source(tmp_path, "compact: false")
    large = {key: f"{key} {'x' * 5000}" for key in range(8)}
    source.commit(*(source.row(key, 1, "a", body, op="c") for key, body in large.items()))
    if not chained:
        source.lab.merge()
    source.commit(*(source.row(key, 2, "b") for key in large))
    monkeypatch.setattr(write_winners, "max_row_bytes", lambda _bytes: 12_000)
    source.lab.merge()
    assert source.rows() == {key: ("b", body) for key, body in large.items()}
    head = source.lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert int(head.summary["added-data-files"] or 0) >= 4
