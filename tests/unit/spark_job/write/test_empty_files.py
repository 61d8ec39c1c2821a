"""Data files without live rows leave the table completely."""

from __future__ import annotations

import numpy as np
from pyiceberg.typedef import Record

from spark_job.iceberg.live_files import LiveDelete, LiveFile
from spark_job.write.plan_deletes import choose_empty_files, deletes_only_for


def live_file(path: str, deleted: int, manifest: str = "m", *deletes: str) -> LiveFile:
    about = tuple(LiveDelete(name, "d", 1, 1) for name in deletes)
    return LiveFile(path, 3, deleted, 0, Record(), deletes=about, manifest=manifest)


def chosen(doomed: dict[str, int], *files: LiveFile, adds_rows: bool = True) -> set[str]:
    rows = {path: np.arange(count) for path, count in doomed.items()}
    return set(choose_empty_files(rows, {file.path: file for file in files}, adds_rows=adds_rows))


def test_file_is_removed_with_its_last_row() -> None:
    assert chosen({"a": 1, "b": 1, "c": 3}, live_file("a", 2), live_file("b", 1), live_file("c", 0)) == {
        "a",
        "c",
    }


def test_file_that_lost_its_last_row_earlier_is_removed() -> None:
    assert chosen({}, live_file("a", 3), live_file("b", 2)) == {"a"}


def test_commit_that_adds_no_file_removes_none() -> None:
    assert chosen({"a": 1}, live_file("a", 2), live_file("b", 3), adds_rows=False) == set()
    assert chosen({"a": 1, "b": 1}, live_file("a", 2), live_file("b", 1), adds_rows=False) == {"a"}


def test_long_manifest_is_rewritten_only_for_many_files() -> None:
    living = [live_file(f"l{number}", 0) for number in range(126)]
    assert chosen({}, live_file("a", 3), *living) == set()
    assert chosen({}, live_file("a", 3), live_file("b", 3), *living) == {"a", "b"}
    assert chosen({}, live_file("a", 3, "short"), *living) == {"a"}


def test_deletes_of_removed_files_only_are_removed() -> None:
    dead, other = live_file("a", 3, "m", "own", "shared"), live_file("b", 1, "m", "shared")
    assert [one.path for one in deletes_only_for([dead], [other])] == ["own"]
