"""Bad rows are rejected exactly once, despite retries, replays, rebuilds, concurrent jobs and lost responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from icemirror.errors import Conflict, Kind
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.commit.retry import MAX_ATTEMPTS
from spark_job.commit.row_delta import RowDelta
from spark_job.engine.engine import InProcessEngine
from spark_job.rejects import record_rejects as record
from tests.lab.bad_rows import MIXED, REJECTED, bad_events, make, rejected, rejects
from tests.lab.explain import explain
from tests.lab.rebuilds import run_rebuild
from tests.lab.replays import replay, since


def test_merging_again_after_a_rollback_rejects_nothing_twice(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I9@1")
    lab.merge()
    first = lab.mirror.metadata.current_snapshot_id
    lab.commit(bad_events(MIXED))
    lab.merge()
    assert first is not None
    lab.mirror.manage_snapshots().rollback_to_snapshot(first).commit()
    (slice_result,) = lab.merge().slices
    assert (slice_result.rejected, rejected(lab)) == (3, REJECTED)
    lab.catalog.drop_table("lab.world")
    assert sum(result.rejected for result in lab.merge().slices) == 3
    assert rejected(lab) == REJECTED


def test_other_slice_boundaries_reject_nothing_twice(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events(MIXED), bad_events("X4@1=e I5@1"), bad_events("I6@1"))
    lab.merge()
    lab.catalog.drop_table("lab.world")
    reconfigured = lab.reconfigure("on_bad_row: quarantine", "batch_size: 2\n")
    assert len(reconfigured.merge().slices) == 3
    assert rejected(reconfigured) == [*REJECTED, ("unknown-operation", "e")]


def test_replay_rejects_nothing_twice_and_restores_deleted_rejects(tmp_path: Path) -> None:
    lab = make(tmp_path)
    first = lab.commit(bad_events(MIXED))
    lab.commit(bad_events("U3@9=z X3@10=f"))
    lab.merge()
    expected = [*REJECTED, ("unknown-operation", "f")]
    before = lab.mirror.metadata_location, rejects(lab).metadata_location
    replay(lab, since(first))
    assert (lab.mirror.metadata_location, rejects(lab).metadata_location) == before
    lab.catalog.drop_table("lab.world_rejects")
    replay(lab, since(first))
    assert lab.mirror.metadata_location == before[0]
    assert rejected(lab) == expected


def test_mergeable_rejects_are_merged_by_a_replay(tmp_path: Path) -> None:
    lab = make(tmp_path)
    first = lab.commit(bad_events("I1@1 X2@4=c I3@5 X3@6=d X1@0=old I?@7=e"))
    lab.merge()
    assert lab.rows() == {1: "I1@1", 3: "I3@5"}
    values = "operation_values: {insert: [INSERT], update: [UPDATE, UPSERT], delete: [DELETE]}"
    lab = lab.reconfigure(f"on_bad_row: quarantine\n{values}")
    assert not verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    assert any("--from-snapshot" in note for note in explain(lab, 2).notes)
    before = rejected(lab)
    replay(lab, since(first))
    assert lab.rows() == {1: "I1@1", 2: "c", 3: "d"}
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    assert rejected(lab) == before
    lab.commit_events("U2@9=later")
    lab.merge()
    assert lab.rows()[2] == "later"


@pytest.mark.parametrize("batch", [2, 1000])
def test_rebuild_rejects_nothing_twice(tmp_path: Path, batch: int) -> None:
    lab = make(tmp_path, extra_config=f"batch_size: {batch}\n", engine=InProcessEngine(2))
    lab.commit(bad_events(MIXED), bad_events("I7@1"))
    lab.commit(bad_events("I8@1 U8@!=g"))
    lab.merge()
    rows, expected = lab.rows(), rejected(lab)
    run_rebuild(lab)
    assert (lab.rows(), rejected(lab)) == (rows, expected)
    assert len(expected) == 4


def test_conflict_on_the_rejects_table_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another job rejects the same rows between the check and the commit."""
    lab = make(tmp_path)
    lab.commit(bad_events(MIXED))
    lab.merge()
    lab.commit(bad_events("X4@1=e I5@1"))
    other_job = lab.reconfigure("on_bad_row: quarantine")
    original_write, done = record._write_files, list[bool]()

    def write_then_merge_elsewhere(*arguments: Any) -> object:
        written = original_write(*arguments)
        if not done:
            done.append(True)
            other_job.merge()
        return written

    monkeypatch.setattr(record, "_write_files", write_then_merge_elsewhere)
    files = len(list((tmp_path / "warehouse" / "lab" / "world_rejects" / "data").glob("*")))
    assert lab.merge().error is None
    assert rejected(lab) == [*REJECTED, ("unknown-operation", "e")]
    assert len(list((tmp_path / "warehouse" / "lab" / "world_rejects" / "data").glob("*"))) == files + 1


@pytest.mark.parametrize("landed", [True, False])
def test_lost_response_rejects_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events(MIXED))
    catalog = lab.catalog
    commit, load = catalog.commit_table, catalog.load_table

    def lose_response(table: Table, *arguments: Any) -> object:
        if table.name()[-1] != "world_rejects":
            return commit(table, *arguments)
        if landed:
            commit(table, *arguments)
        monkeypatch.setattr(catalog, "load_table", unreachable)
        raise ConnectionError("no answer")

    def unreachable(_name: object) -> object:
        raise ConnectionError("no answer")

    monkeypatch.setattr(catalog, "commit_table", lose_response)
    failed = lab.try_merge()
    assert failed.error is not None
    assert failed.error.kind is Kind.COMMIT_UNKNOWN
    assert "lab.world_rejects: " in failed.error.message
    monkeypatch.setattr(catalog, "commit_table", commit)
    monkeypatch.setattr(catalog, "load_table", load)
    assert lab.mirror.current_snapshot() is None
    assert [result.rejected for result in lab.merge().slices] == [3]
    assert rejected(lab) == REJECTED


def test_constant_conflicts_on_the_rejects_table_fail_the_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events(MIXED))
    attempts = list[RowDelta]()

    def refuse(self: RowDelta) -> object:
        attempts.append(self)
        raise Conflict("it moved")

    monkeypatch.setattr(RowDelta, "commit", refuse)
    failed = lab.try_merge()
    assert failed.error is not None
    assert failed.error.kind is Kind.CONFLICT
    assert len(attempts) == MAX_ATTEMPTS
    assert not [path for path in lab.files_on_disk() if path.endswith((".parquet", ".puffin"))]
