"""Bad rows are rejected exactly once: repeated slices, replays, rebuilds, other jobs, lost responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from icemirror.errors import Conflict, Kind
from spark_job.commit.row_delta import RowDelta
from spark_job.engine.engine import InProcessEngine
from spark_job.inspect.verify.verify_table import VerifyOptions, verify_table
from spark_job.rejects import record_rejects as record
from tests.lab.bad_rows import MIXED, REJECTED, bad_events, make, rejected, rejects
from tests.lab.explain import explain
from tests.tables.rebuild.test_rebuild import rebuilt
from tests.tables.rebuild.test_replay import replay, since


def test_merging_again_after_a_rollback_rejects_nothing_twice(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I9@1")
    lab.merge()
    first = lab.mirror.metadata.current_snapshot_id
    lab.commit(bad_events(MIXED))
    lab.merge()
    assert first is not None
    lab.mirror.manage_snapshots().rollback_to_snapshot(first).commit()
    (part,) = lab.merge().slices
    assert (part.rejected, rejected(lab)) == (3, REJECTED)
    lab.catalog.drop_table("lab.world")
    assert sum(one.rejected for one in lab.merge().slices) == 3
    assert rejected(lab) == REJECTED


def test_slice_cut_differently_rejects_nothing_twice(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events(MIXED), bad_events("X4@1=e I5@1"), bad_events("I6@1"))
    lab.merge()
    lab.catalog.drop_table("lab.world")
    again = lab.reconfigure("on_bad_row: quarantine", "batch_size: 2\n")
    assert len(again.merge().slices) == 3
    assert rejected(again) == [*REJECTED, ("unknown-operation", "e")]


def test_replay_rejects_nothing_twice_and_restores_deleted_rejects(tmp_path: Path) -> None:
    lab = make(tmp_path)
    first = lab.commit(bad_events(MIXED))
    lab.commit(bad_events("U3@9=z X3@10=f"))
    lab.merge()
    aside = [*REJECTED, ("unknown-operation", "f")]
    before = lab.mirror.metadata_location, rejects(lab).metadata_location
    replay(lab, since(first))
    assert (lab.mirror.metadata_location, rejects(lab).metadata_location) == before
    lab.catalog.drop_table("lab.world_rejects")
    replay(lab, since(first))
    assert lab.mirror.metadata_location == before[0]
    assert rejected(lab) == aside


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
    lab = make(tmp_path, tail=f"batch_size: {batch}\n", engine=InProcessEngine(2))
    lab.commit(bad_events(MIXED), bad_events("I7@1"))
    lab.commit(bad_events("I8@1 U8@!=g"))
    lab.merge()
    rows, aside = lab.rows(), rejected(lab)
    rebuilt(lab)
    assert (lab.rows(), rejected(lab)) == (rows, aside)
    assert len(aside) == 4


def test_conflict_on_the_rejects_table_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another job rejects the same rows between the check and the commit."""
    lab = make(tmp_path)
    lab.commit(bad_events(MIXED))
    lab.merge()
    lab.commit(bad_events("X4@1=e I5@1"))
    other = lab.reconfigure("on_bad_row: quarantine")
    right, done = record._write, list[bool]()

    def beside(*given: Any) -> object:
        written = right(*given)
        if not done:
            done.append(True)
            other.merge()
        return written

    monkeypatch.setattr(record, "_write", beside)
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

    def lose(table: Table, *given: Any) -> object:
        if table.name()[-1] != "world_rejects":
            return commit(table, *given)
        if landed:
            commit(table, *given)
        monkeypatch.setattr(catalog, "load_table", unreachable)
        raise ConnectionError("no answer")

    def unreachable(_name: object) -> object:
        raise ConnectionError("no answer")

    monkeypatch.setattr(catalog, "commit_table", lose)
    failed = lab.try_merge()
    assert failed.error is not None
    assert failed.error.kind is Kind.COMMIT_UNKNOWN
    assert "lab.world_rejects: " in failed.error.message
    monkeypatch.setattr(catalog, "commit_table", commit)
    monkeypatch.setattr(catalog, "load_table", load)
    assert lab.mirror.current_snapshot() is None
    assert [part.rejected for part in lab.merge().slices] == [3]
    assert rejected(lab) == REJECTED


def test_a_rejects_table_that_never_rests_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events(MIXED))

    def refused(self: RowDelta) -> object:
        raise Conflict("it moved")

    monkeypatch.setattr(RowDelta, "commit", refused)
    failed = lab.try_merge()
    assert failed.error is not None
    assert failed.error.kind is Kind.CONFLICT
    assert not [path for path in lab.files_on_disk() if path.endswith((".parquet", ".puffin"))]
