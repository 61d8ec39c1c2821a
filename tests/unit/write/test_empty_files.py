"""Data files without live rows leave the table completely."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyiceberg.typedef import Record

from spark_job.iceberg.live_files import LiveDelete, LiveFile, live_files
from spark_job.write.plan_deletes import choose_empty_files, deletes_only_for
from tests.manifests import list_manifests
from tests.referenced import referenced_files, stored_files
from tests.unit.merge.lab import Lab


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


@pytest.mark.parametrize("options", ["format_version: 2", "format_version: 3"])
def test_repeated_updates_of_one_key_leave_one_file(tmp_path: Path, options: str) -> None:
    lab = Lab.make(tmp_path, options=options)
    lab.tell("I1@1 I2@1")
    lab.merge()
    for number in range(2, 40):
        lab.tell(f"U1@{number} U2@{number}")
        lab.merge()
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert lab.rows() == {1: "U1@39", 2: "U2@39"}
    assert len(live_files(lab.mirror.io, head)) == 1
    totals = ("total-data-files", "total-records", "total-delete-files", "total-position-deletes")
    assert [head.summary[name] for name in totals] == ["1", "2", "0", "0"]
    went = ("deleted-data-files", "deleted-records", "removed-files-size")
    assert [head.summary[name] is not None for name in went] == [True] * 3
    assert len(list_manifests(lab.mirror.io, head.manifest_list)) <= 8
    assert stored_files(tmp_path / "warehouse") == referenced_files(lab.mirror)


@pytest.mark.parametrize("options", ["format_version: 2", "format_version: 3"])
def test_mirror_that_lost_all_rows_continues(tmp_path: Path, options: str) -> None:
    """The commit that deletes them adds only deletes; the next one removes the files."""
    lab = Lab.make(tmp_path, options=options)
    lab.tell("I1@1 I2@1")
    lab.merge()
    lab.tell("D1@2 D2@2")
    lab.merge()
    assert lab.rows() == {}
    lab.tell("I1@3 U2@1")
    lab.merge()
    assert lab.rows() == {1: "I1@3"}
    assert len(live_files(lab.mirror.io, lab.mirror.current_snapshot())) == 1
