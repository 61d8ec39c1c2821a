"""Rows that other writers deleted twice, as Iceberg allows, count once; merging continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spark_job.commands.verify.verify_report import FindingKind
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.iceberg.live_files import live_files
from spark_job.index.root import Root
from spark_job.storage.file_cache import FileCache
from spark_job.write import read_deletes
from spark_job.write.plan_deletes import plan_deletes
from spark_job.write.read_deletes import read_deleted_positions
from tests.lab import foreign, tables
from tests.lab.damage import put_root, root_of
from tests.lab.lab import Lab
from tests.lab.mirrored_world import upgrade_like_java


def delete_in_one_file(lab: Lab) -> None:
    tables.delete_positions(lab, [2, 2])


def delete_in_two_files(lab: Lab) -> None:
    tables.delete_positions(lab, [2])
    tables.delete_positions(lab, [2])


def delete_after_a_merge(lab: Lab) -> None:
    tables.delete_positions(lab, [0, 2])


DELETE_TWICE: list[Callable[[Lab], None]] = [delete_in_one_file, delete_in_two_files, delete_after_a_merge]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The first data file has keys 1 to 5 at positions 0 to 4; the first is deleted."""
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10 I2@11 I3@12 I4@13 I5@14")
    lab.merge()
    lab.commit_events("D1@20")
    lab.merge()
    return lab


@pytest.mark.parametrize("delete_twice", DELETE_TWICE)
def test_row_deleted_twice_by_other_writers_counts_once(
    lab: Lab, delete_twice: Callable[[Lab], None]
) -> None:
    delete_twice(lab)
    lab.commit_events("U2@30")
    lab.merge()
    assert lab.rows() == {2: "U2@30", 4: "I4@13", 5: "I5@14"}
    lab.commit_events("D4@40 U3@11=old I6@41")
    lab.merge()
    assert lab.rows() == {2: "U2@30", 5: "I5@14", 6: "I6@41"}
    assert root_of(lab).live_rows == 3


@pytest.mark.parametrize("delete_twice", DELETE_TWICE)
def test_index_with_rows_deleted_twice_is_rebuilt(lab: Lab, delete_twice: Callable[[Lab], None]) -> None:
    delete_twice(lab)
    for path in (lab.folder / "warehouse").rglob("*.puffin"):
        path.unlink()
    lab.commit_events("U2@30")
    lab.merge()
    assert lab.rows() == {2: "U2@30", 4: "I4@13", 5: "I5@14"}
    lab.commit_events("U4@40")
    lab.merge()
    assert lab.rows()[4] == "U4@40"


@pytest.mark.parametrize("delete_twice", DELETE_TWICE)
def test_deletion_vector_includes_rows_deleted_twice(lab: Lab, delete_twice: Callable[[Lab], None]) -> None:
    delete_twice(lab)
    upgrade_like_java(lab.mirror)
    lab.commit_events("U2@30")
    lab.merge()
    assert lab.rows() == {2: "U2@30", 4: "I4@13", 5: "I5@14"}


def test_verification_counts_a_row_deleted_twice_once(lab: Lab) -> None:
    delete_in_two_files(lab)
    lab.commit_events("U2@30")
    lab.merge()
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert [finding.kind for finding in report.findings] == [
        FindingKind.MISSING_ROW
    ]  # deleted by another writer
    assert report.live_rows == 3


def test_rewritten_delete_files_drop_the_duplicate(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_job.write.plan_deletes._MIN_DELETE_FILES", 1)
    delete_in_one_file(lab)
    table = lab.mirror
    live = live_files(table.io, table.current_snapshot())
    (path,) = live
    plan = plan_deletes(table.io, table.metadata, {path: np.array([3, 4])}, live)
    assert {file: positions.tolist() for file, positions in plan.positions.items()} == {path: [0, 2, 3, 4]}
    assert len(plan.replaced_deletes) == 2


def test_deletes_are_not_read_if_the_counts_agree(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[set[str]] = []
    original = read_deleted_positions

    def record_read(io: object, targets: dict[str, object]) -> object:
        reads.append(set(targets))
        return original(io, targets)  # type: ignore[arg-type]

    foreign.delete_rows(lab.mirror, [2])
    monkeypatch.setattr(read_deletes, "read_deleted_positions", record_read)
    lab.commit_events("U3@30")
    lab.merge()
    lab.commit_events("U4@31")
    lab.merge()
    assert reads == []


def test_other_differences_between_index_and_table_are_still_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_job.iceberg.mirror._roots", FileCache(0))
    root: Root = root_of(lab)
    files = [file.model_copy(update={"live_rows": file.live_rows - 1}) for file in root.files]
    put_root(lab, root.model_copy(update={"files": tuple(files)}))
    lab.commit_events("U2@30")
    error = lab.try_merge().error
    assert error is not None
    assert "live rows in a data file, but the key index counts" in error.message
