"""Data files whose last row was deleted are removed by merges."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_job.iceberg.live_files import live_files
from tests.lab.lab import Lab
from tests.lab.manifests import list_manifests
from tests.lab.referenced_files import referenced_files, stored_files


@pytest.mark.parametrize("options", ["format_version: 2", "format_version: 3"])
def test_repeated_updates_of_one_key_leave_one_file(tmp_path: Path, options: str) -> None:
    lab = Lab.make(tmp_path, options=options)
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    for number in range(2, 40):
        lab.commit_events(f"U1@{number} U2@{number}")
        lab.merge()
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert lab.rows() == {1: "U1@39", 2: "U2@39"}
    assert len(live_files(lab.mirror.io, head)) == 1
    totals = ("total-data-files", "total-records", "total-delete-files", "total-position-deletes")
    assert [head.summary[name] for name in totals] == ["1", "2", "0", "0"]
    removed = ("deleted-data-files", "deleted-records", "removed-files-size")
    assert [head.summary[name] is not None for name in removed] == [True] * 3
    assert len(list_manifests(lab.mirror.io, head.manifest_list)) <= 8
    assert stored_files(tmp_path / "warehouse") == referenced_files(lab.mirror)


@pytest.mark.parametrize("options", ["format_version: 2", "format_version: 3"])
def test_merging_continues_after_all_rows_were_deleted(tmp_path: Path, options: str) -> None:
    """The commit that deletes the rows adds only deletes; the next commit removes the files."""
    lab = Lab.make(tmp_path, options=options)
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    lab.commit_events("D1@2 D2@2")
    lab.merge()
    assert lab.rows() == {}
    lab.commit_events("I1@3 U2@1")
    lab.merge()
    assert lab.rows() == {1: "I1@3"}
    assert len(live_files(lab.mirror.io, lab.mirror.current_snapshot())) == 1
