"""Soft deletes, combined with unchanged values and changed keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema

from spark_job.commands.explain.explain_key import explain_key
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.engine import InProcessEngine
from tests.lab.column_changes import rebuild
from tests.tables.profiles.debezium import SCHEMA, TEXT_KEY, UNCHANGED, Source

KEYS = pytest.mark.parametrize("schema", [SCHEMA, TEXT_KEY], ids=["long", "text"])
SHARDS = pytest.mark.parametrize("shards", [1, 3])


def make(folder: Path, schema: Schema = SCHEMA, shards: int = 1, options: str = "") -> Source:
    return Source(folder, f"delete_mode: soft\n{options}", schema, InProcessEngine(shards))


def flagged_rows(source: Source) -> dict[int, tuple[Any, Any, Any]]:
    """Return name, body and flag by key."""
    scanned = source.lab.mirror.scan().to_arrow().to_pylist()
    rows = {int(row["id"]): (row["name"], row["body"], row["_is_deleted"]) for row in scanned}
    assert len(rows) == len(scanned), "a key has two rows"
    return rows


def require_verified(source: Source) -> None:
    report = verify_table(source.lab.pipeline, source.lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings
    assert not report.notes


@KEYS
@SHARDS
def test_unchanged_values_survive_a_delete(tmp_path: Path, schema: Schema, shards: int) -> None:
    source = make(tmp_path, schema, shards)
    source.commit(source.row(1, 1, "a", "one", op="c"), source.row(2, 1, "a", "two", op="c"))
    source.lab.merge()
    source.commit(source.row(1, 2, "b"), source.row(1, 3, None, None, op="d"), source.row(2, 2, "b"))
    source.lab.merge()
    assert flagged_rows(source) == {1: ("b", "one", True), 2: ("b", "two", False)}
    source.commit(source.row(2, 3, None, UNCHANGED, op="d"), source.row(1, 4, "back", "new", op="c"))
    source.lab.merge()
    assert flagged_rows(source) == {1: ("back", "new", False), 2: ("b", "two", True)}
    require_verified(source)
    rebuild(source.lab)
    assert flagged_rows(source) == {1: ("back", "new", False), 2: ("b", "two", True)}
    require_verified(source)


def test_partial_update_after_a_delete_keeps_the_values_of_the_flagged_row(tmp_path: Path) -> None:
    source = make(tmp_path)
    source.commit(source.row(1, 1, "a", "one", op="c"))
    source.commit(source.row(1, 2, None, None, op="d"))
    source.lab.merge()
    source.commit(source.row(1, 3, "b"))
    source.commit(
        source.row(2, 1, "a", "two", op="c"), source.row(2, 2, None, None, op="d"), source.row(2, 3, "b")
    )
    source.lab.merge()
    assert flagged_rows(source) == {1: ("b", "one", False), 2: ("b", "two", False)}
    require_verified(source)
    assert explain_key(source.lab.pipeline, source.lab.table, "1").equal


@pytest.mark.parametrize("one_slice", [True, False])
def test_unknown_placeholder_in_a_delete_is_null(tmp_path: Path, one_slice: bool) -> None:
    source = make(tmp_path)
    source.commit(source.row(1, 1, "a", UNCHANGED, op="d"))
    if not one_slice:
        source.lab.merge()
    source.commit(source.row(1, 2, "b"))
    source.lab.merge()
    assert flagged_rows(source) == {1: ("b", None, False)}
    require_verified(source)


@KEYS
@SHARDS
def test_changed_key_leaves_a_flagged_row(tmp_path: Path, schema: Schema, shards: int) -> None:
    source = make(tmp_path, schema, shards)
    source.commit(source.row(1, 1, "a", "one", op="c"), source.row(7, 1, "b", "seven", op="c"))
    source.lab.merge()
    source.commit(source.row(2, 2, "moved", "two", before=1))
    source.lab.merge()
    expected = {1: ("a", "one", True), 2: ("moved", "two", False), 7: ("b", "seven", False)}
    assert flagged_rows(source) == expected
    require_verified(source)
    source.commit(source.row(3, 3, "again", "three", before=2), source.row(3, 4, None, None, op="d"))
    source.lab.merge()
    expected |= {2: ("moved", "two", True), 3: ("again", "three", True)}
    assert flagged_rows(source) == expected
    for key in (1, 2, 3):
        text = f'"{key}"' if schema is TEXT_KEY else str(key)
        assert explain_key(source.lab.pipeline, source.lab.table, text).equal
    rebuild(source.lab)
    assert flagged_rows(source) == expected
    require_verified(source)


def test_unseen_old_key_gets_a_flagged_row(tmp_path: Path) -> None:
    """One event in a file with a single row writes both keys."""
    source = make(tmp_path)
    source.commit(source.row(2, 2, "moved", "two", before=1))
    source.lab.merge()
    assert flagged_rows(source) == {1: ("moved", "two", True), 2: ("moved", "two", False)}
    require_verified(source)


def test_row_moved_from_another_key_keeps_its_values(tmp_path: Path) -> None:
    source = make(tmp_path, options="on_missing_value: set-null")
    source.commit(source.row(1, 1, "a", "one", op="c"), source.row(2, 1, "b", "two", op="c"))
    source.lab.merge()
    source.commit(source.row(2, 2, "moved", before=1), source.row(2, 3, None, None, op="d"))
    source.lab.merge()
    assert flagged_rows(source) == {1: ("a", "one", True), 2: ("moved", None, True)}, (
        "the same rows as with a merge in between"
    )
    require_verified(source)
