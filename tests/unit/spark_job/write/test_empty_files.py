"""Data files without live rows are removed from the table."""

from __future__ import annotations

import numpy as np
from pyiceberg.typedef import Record

from spark_job.iceberg.live_files import LiveDelete, LiveFile
from spark_job.write.plan_deletes import choose_empty_files, exclusive_deletes


def live_file(path: str, deleted: int, manifest: str = "m", *deletes: str) -> LiveFile:
    live_deletes = tuple(LiveDelete(name, "d", 1, 1) for name in deletes)
    return LiveFile(path, 3, deleted, 0, Record(), deletes=live_deletes, manifest=manifest)


def chosen(deleted_rows: dict[str, int], *files: LiveFile, adds_rows: bool = True) -> set[str]:
    rows = {path: np.arange(count) for path, count in deleted_rows.items()}
    return set(choose_empty_files(rows, {file.path: file for file in files}, adds_rows=adds_rows))


def test_file_is_removed_with_its_last_row() -> None:
    assert chosen({"a": 1, "b": 1, "c": 3}, live_file("a", 2), live_file("b", 1), live_file("c", 0)) == {
        "a",
        "c",
    }


def test_file_without_rows_since_an_earlier_commit_is_removed() -> None:
    assert chosen({}, live_file("a", 3), live_file("b", 2)) == {"a"}


def test_commit_without_new_files_removes_no_other_file() -> None:
    assert chosen({"a": 1}, live_file("a", 2), live_file("b", 3), adds_rows=False) == set()
    assert chosen({"a": 1, "b": 1}, live_file("a", 2), live_file("b", 1), adds_rows=False) == {"a"}


def test_long_manifest_is_rewritten_only_for_many_files() -> None:
    live = [live_file(f"l{number}", 0) for number in range(126)]
    assert chosen({}, live_file("a", 3), *live) == set()
    assert chosen({}, live_file("a", 3), live_file("b", 3), *live) == {"a", "b"}
    assert chosen({}, live_file("a", 3, "short"), *live) == {"a"}


def test_deletes_of_removed_files_only_are_removed() -> None:
    empty, other = live_file("a", 3, "m", "own", "shared"), live_file("b", 1, "m", "shared")
    assert [delete.path for delete in exclusive_deletes([empty], [other])] == ["own"]
