"""Rows that other writers deleted twice, which Iceberg allows: they count once, and merging continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spark_job.iceberg.live_files import live_files
from spark_job.index.root import Root
from spark_job.inspect.verify.verify_report import FindingKind
from spark_job.inspect.verify.verify_table import VerifyOptions, verify_table
from spark_job.storage.immutable_cache import FileCache
from spark_job.write import live_row_counts as recount
from spark_job.write.plan_deletes import plan_deletes
from spark_job.write.vectors import deleted_positions
from tests.lab import foreign, tables
from tests.lab.damage import put_root, root_of
from tests.lab.lab import Lab
from tests.mirrors import upgrade_like_java


def in_one_file(lab: Lab) -> None:
    tables.delete_positions(lab, [2, 2])


def in_two_files(lab: Lab) -> None:
    tables.delete_positions(lab, [2])
    tables.delete_positions(lab, [2])


def after_a_merge_deleted_it(lab: Lab) -> None:
    tables.delete_positions(lab, [0, 2])


TWICE: list[Callable[[Lab], None]] = [in_one_file, in_two_files, after_a_merge_deleted_it]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The first data file has keys 1 to 5 at positions 0 to 4; the first is deleted."""
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@10 I2@11 I3@12 I4@13 I5@14")
    lab.merge()
    lab.commit_events("D1@20")
    lab.merge()
    return lab


@pytest.mark.parametrize("twice", TWICE)
def test_row_deleted_twice_by_other_writers_counts_once(lab: Lab, twice: Callable[[Lab], None]) -> None:
    twice(lab)
    lab.commit_events("U2@30")
    lab.merge()
    assert lab.rows() == {2: "U2@30", 4: "I4@13", 5: "I5@14"}
    lab.commit_events("D4@40 U3@11=old I6@41")
    lab.merge()
    assert lab.rows() == {2: "U2@30", 5: "I5@14", 6: "I6@41"}
    assert root_of(lab).live_rows == 3


@pytest.mark.parametrize("twice", TWICE)
def test_the_index_is_rebuilt_with_rows_that_were_deleted_twice(
    lab: Lab, twice: Callable[[Lab], None]
) -> None:
    twice(lab)
    for path in (lab.folder / "warehouse").rglob("*.puffin"):
        path.unlink()
    lab.commit_events("U2@30")
    lab.merge()
    assert lab.rows() == {2: "U2@30", 4: "I4@13", 5: "I5@14"}
    lab.commit_events("U4@40")
    lab.merge()
    assert lab.rows()[4] == "U4@40"


@pytest.mark.parametrize("twice", TWICE)
def test_deletion_vector_includes_rows_deleted_twice(lab: Lab, twice: Callable[[Lab], None]) -> None:
    twice(lab)
    upgrade_like_java(lab.mirror)
    lab.commit_events("U2@30")
    lab.merge()
    assert lab.rows() == {2: "U2@30", 4: "I4@13", 5: "I5@14"}


def test_verification_counts_a_row_deleted_twice_once(lab: Lab) -> None:
    in_two_files(lab)
    lab.commit_events("U2@30")
    lab.merge()
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert [one.kind for one in report.findings] == [FindingKind.MISSING_ROW]  # deleted by another writer
    assert report.live_rows == 3


def test_rewritten_delete_files_drop_the_duplicate(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_job.write.plan_deletes._MIN_DELETE_FILES", 1)
    in_one_file(lab)
    table = lab.mirror
    live = live_files(table.io, table.current_snapshot())
    (path,) = live
    plan = plan_deletes(table.io, table.metadata, {path: np.array([3, 4])}, live)
    assert {one: found.tolist() for one, found in plan.positions.items()} == {path: [0, 2, 3, 4]}
    assert len(plan.replaced) == 2


def test_nothing_is_read_if_the_counts_agree(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[set[str]] = []
    real = deleted_positions

    def noted(io: object, targets: dict[str, object]) -> object:
        asked.append(set(targets))
        return real(io, targets)  # type: ignore[arg-type]

    monkeypatch.setattr(recount, "deleted_positions", noted)
    foreign.delete_rows(lab.mirror, [2])
    lab.commit_events("U3@30")
    lab.merge()
    lab.commit_events("U4@31")
    lab.merge()
    assert asked == []


def test_other_differences_between_index_and_table_are_still_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_job.iceberg.mirror._roots", FileCache(0))
    root: Root = root_of(lab)
    files = [file.model_copy(update={"live": file.live - 1}) for file in root.files]
    put_root(lab, root.model_copy(update={"files": tuple(files)}))
    lab.commit_events("U2@30")
    error = lab.try_merge().error
    assert error is not None
    assert "live rows in a data file, but the key index counts" in error.message
