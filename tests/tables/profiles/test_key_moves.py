"""Events that change a key delete the old key and write the new one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.schema import Schema

from spark_job.changelog import read_events
from spark_job.commands.explain.event_outcomes import EventOutcome
from spark_job.commands.explain.explain_key import explain_key
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg import mirror as mirror_module
from spark_job.index import blocks
from spark_job.storage.file_cache import FileCache
from tests.tables.profiles.debezium import SCHEMA, TEXT_KEY, Source

KEYS = pytest.mark.parametrize("schema", [SCHEMA, TEXT_KEY], ids=["long", "text"])
SHARDS = pytest.mark.parametrize("shards", [1, 2, 4])


def make_with_moves(folder: Path, schema: Schema = SCHEMA, shards: int = 1, options: str = "") -> Source:
    """Merge rows 1 to 6. Then commit, unmerged: 1 becomes 101, 3 is deleted, 2 becomes 3."""
    source = Source(folder, options, schema, InProcessEngine(shards))
    source.commit(*(source.row(key, 1, f"row {key}", "b", op="c") for key in range(1, 7)))
    source.lab.merge()
    source.commit(
        source.row(101, 10, "row 1", "b", before=1),
        source.row(3, 11, None, None, op="d"),
        source.row(3, 12, "row 2", "b", before=2),
    )
    return source


def names(source: Source) -> dict[int, str | None]:
    return {key: name for key, (name, _) in source.rows().items()}


EXPECTED = {3: "row 2", 4: "row 4", 5: "row 5", 6: "row 6", 101: "row 1"}


@KEYS
@SHARDS
@pytest.mark.parametrize("version", [2, 3])
def test_row_moves_with_its_key(tmp_path: Path, schema: Schema, shards: int, version: int) -> None:
    source = make_with_moves(tmp_path, schema, shards, f"format_version: {version}")
    slice_result = source.lab.merge().slices[0]
    assert names(source) == EXPECTED
    assert (slice_result.events, slice_result.inserted, slice_result.updated, slice_result.deleted) == (
        3,
        1,
        1,
        2,
    )
    report = verify_table(source.lab.pipeline, source.lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings


@KEYS
def test_late_event_of_the_old_key_does_not_restore_it(tmp_path: Path, schema: Schema) -> None:
    source = make_with_moves(tmp_path, schema)
    source.lab.merge()
    source.commit(source.row(1, 9, "late", "b"), source.row(2, 11, "late", "b"))
    source.lab.merge()
    assert names(source) == EXPECTED


@KEYS
def test_old_key_can_be_reused(tmp_path: Path, schema: Schema) -> None:
    source = make_with_moves(tmp_path, schema)
    source.commit(source.row(1, 20, "another", "b", op="c"))
    source.lab.merge()
    assert names(source) == {**EXPECTED, 1: "another"}


@KEYS
def test_lost_index_is_rebuilt_without_the_old_key(
    tmp_path: Path, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_directories", FileCache(0))
    monkeypatch.setattr(mirror_module, "_roots", FileCache(0))
    source = make_with_moves(tmp_path, schema)
    source.lab.merge()
    for path in source.lab.folder.rglob("*.puffin"):
        path.unlink()
    source.commit(source.row(1, 9, "late", "b"), source.row(7, 30, "row 7", "b", op="c"))
    source.lab.merge()
    assert names(source) == {**EXPECTED, 7: "row 7"}


def test_both_keys_are_explained(tmp_path: Path) -> None:
    source = make_with_moves(tmp_path)
    source.lab.merge()
    old, new = (explain_key(source.lab.pipeline, source.lab.table, key) for key in ("1", "101"))
    assert [(event.does, event.fate) for event in old.events] == [
        ("upsert", EventOutcome.OVERTAKEN),
        ("delete", EventOutcome.DELETED_ROW),
    ]
    assert [(event.does, event.fate) for event in new.events] == [("upsert", EventOutcome.WROTE_ROW)]
    assert old.equal
    assert new.equal
    assert old.events[-1].position == new.events[-1].position


def test_verify_detects_lost_old_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_with_moves(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(read_events, "_with_old_keys", lambda changes, *_: changes)
        source.lab.merge()
    assert names(source) != EXPECTED
    report = verify_table(source.lab.pipeline, source.lab.table, VerifyOptions(deep=True))
    assert {finding.kind.value for finding in report.findings} == {"deleted-row"}


def test_configured_old_key_columns_are_used(tmp_path: Path) -> None:
    fields = [
        field.model_copy(update={"name": "was"}) if field.name == "__before_id" else field
        for field in SCHEMA.fields
    ]
    schema = Schema(*fields, identifier_field_ids=[1])
    source = Source(tmp_path, "old_key_columns: {id: was}", schema)
    rows = [source.row(1, 1, "a", "b", op="c"), source.row(2, 2, "a", "b", before=1)]
    for row in rows:
        row["was"] = row.pop("__before_id")
    source.commit(*rows)
    source.lab.merge()
    assert names(source) == {2: "a"}
    assert [field.name for field in source.lab.mirror.schema().fields] == ["id", "name", "body"]


def test_file_without_the_old_key_column_has_no_key_changes(tmp_path: Path) -> None:
    source = Source(tmp_path)
    file = source.file(source.row(1, 1, "a", "b", op="c")).drop_columns(["__before_id"])
    source.lab.commit(file)
    source.lab.merge()
    assert names(source) == {1: "a"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("old_key_columns: {id: __befor_id}", "did you mean __before_id?"),
        ("old_key_columns: {id: body}", "cannot hold the old value of id, which is of type long"),
        (
            "old_key_columns: {name: body}",
            "id is part of the key of lab.world, but old_key_columns does not name",
        ),
    ],
)
def test_unsupported_old_key_columns_are_refused(tmp_path: Path, options: str, message: str) -> None:
    source = Source(tmp_path, options)
    source.commit(source.row(1, 1, body="b", op="c"))
    error = source.lab.try_merge().error
    assert error is not None
    assert message in error.message
