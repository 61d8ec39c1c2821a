"""Foreign writes on the mirror: rows are indexed, deletes become tombstones, and merging continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from icemirror.errors import Corrupt, Kind
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg.mirror import read_mirror
from spark_job.maintenance import index_foreign_writes
from tests.lab import foreign
from tests.lab.lab import Lab


def make(folder: Path, version: int) -> Lab:
    lab = Lab.make(folder, options=f"format_version: {version}", engine=InProcessEngine(2))
    lab.commit_events("I1@10 I2@20 I3@30 I4@40 I5@50 I6@60")
    lab.merge()
    lab.commit_events("U2@70 D3@80")
    lab.merge()
    return lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make(tmp_path, 2)


@pytest.fixture(params=[2, 3])
def any_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A lab of each format version, for tests in which PyIceberg does not write; it writes only v2."""
    return make(tmp_path, request.param)


def test_foreign_rows_are_updated_and_deleted_like_merged_rows(lab: Lab) -> None:
    foreign.append(lab.mirror, [(7, "theirs"), (8, "theirs"), (9, "theirs")])
    lab.commit_events("U7@90 D8@91 I10@92")
    lab.merge()
    assert lab.rows() == {
        1: "I1@10", 2: "U2@70", 4: "I4@40", 5: "I5@50", 6: "I6@60", 7: "U7@90", 9: "theirs", 10: "I10@92"
    }  # fmt: skip
    lab.commit_events("U9@93")
    lab.merge()
    assert lab.rows()[9] == "U9@93"


def test_replay_does_not_overwrite_a_foreign_row(lab: Lab) -> None:
    foreign.append(lab.mirror, [(7, "theirs")])
    lab.commit_events("U7@79")
    assert lab.merge().slices[0].stale == 1
    assert lab.rows()[7] == "theirs"


def test_duplicate_key_of_another_writer_is_refused_until_it_is_removed(lab: Lab) -> None:
    before = lab.mirror.current_snapshot()
    foreign.append(lab.mirror, [(1, "double")])
    lab.commit_events("U4@90")
    error = lab.try_merge().error
    assert error is not None
    assert error.kind is Kind.INVALID
    assert "has the key of" in error.message
    assert before is not None
    lab.mirror.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    lab.merge()
    assert lab.rows()[4] == "U4@90"


def test_two_foreign_rows_of_one_key_are_refused(lab: Lab) -> None:
    foreign.append(lab.mirror, [(77, "one"), (77, "two")])
    lab.commit_events("U4@90")
    error = lab.try_merge().error
    assert error is not None
    assert "has the key of row" in error.message


def test_compaction_keeps_the_order_of_every_row(lab: Lab) -> None:
    rows = lab.rows()
    foreign.compact(lab.mirror)
    lab.commit_events("U1@9=old U2@69=old D4@39 U5@51=new I3@79=old")
    result = lab.merge().slices[0]
    assert (result.updated, result.stale) == (1, 4)
    assert lab.rows() == {**rows, 5: "new"}


def test_rows_deleted_by_another_writer_return_only_with_newer_events(any_lab: Lab) -> None:
    foreign.delete_rows(any_lab.mirror, [1, 2, 4])
    any_lab.commit_events("U1@9=old U2@70=same U4@41=new I7@90")
    any_lab.merge()
    assert any_lab.rows() == {2: "same", 4: "new", 5: "I5@50", 6: "I6@60", 7: "I7@90"}
    any_lab.commit_events("U1@11=newer D5@95")
    any_lab.merge()
    assert any_lab.rows() == {1: "newer", 2: "same", 4: "new", 6: "I6@60", 7: "I7@90"}


def test_foreign_row_changes_are_logged_as_a_warning(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.mirror.delete("id in (1, 5)")
    lab.commit_events("I7@90")
    lab.merge()
    (record,) = (record for record in caplog.records if record.name == index_foreign_writes.__name__)
    assert (record.levelname, record.getMessage()) == ("WARNING", "foreign writes changed rows")


def test_rows_deleted_copy_on_write_leave_tombstones(lab: Lab) -> None:
    lab.mirror.delete("id in (1, 5)")
    lab.commit_events("U1@9=old U5@51=new")
    lab.merge()
    assert lab.rows() == {2: "U2@70", 4: "I4@40", 5: "new", 6: "I6@60"}


def test_update_by_another_engine_keeps_the_order_of_the_row(lab: Lab) -> None:
    foreign.delete_rows(lab.mirror, [1, 4])
    foreign.append(lab.mirror, [(1, "theirs"), (4, "theirs")])
    lab.commit_events("U1@9=old U4@41=new")
    lab.merge()
    assert (lab.rows()[1], lab.rows()[4]) == ("theirs", "new")


def test_foreign_snapshots_are_indexed_after_merge_snapshots_expired(lab: Lab) -> None:
    foreign.append(lab.mirror, [(7, "theirs")])
    foreign.compact(lab.mirror)
    foreign.delete_rows(lab.mirror, [6])
    mirror = lab.mirror
    head = mirror.current_snapshot()
    assert head is not None
    for snapshot in mirror.snapshots():
        assert snapshot.summary is not None
        is_merge = "icemirror.cursor" in snapshot.summary.additional_properties
        if snapshot.snapshot_id != head.snapshot_id and is_merge:
            lab.mirror.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    lab.commit_events("U1@90 U7@91")
    lab.merge()
    assert lab.rows() == {1: "U1@90", 2: "U2@70", 4: "I4@40", 5: "I5@50", 7: "U7@91"}


def test_mirror_rolled_back_to_an_older_merge_is_merged_again(any_lab: Lab) -> None:
    merges = [snapshot.snapshot_id for snapshot in any_lab.mirror.snapshots()]
    epoch = int(any_lab.mirror.current_snapshot().summary["icemirror.epoch"])  # type: ignore[union-attr, index, arg-type]
    any_lab.mirror.manage_snapshots().rollback_to_snapshot(merges[0]).commit()
    assert any_lab.rows()[3] == "I3@30"
    any_lab.merge()
    assert 3 not in any_lab.rows()
    assert any_lab.rows()[2] == "U2@70"
    assert int(any_lab.mirror.current_snapshot().summary["icemirror.epoch"]) > epoch  # type: ignore[union-attr, index, arg-type]


def test_history_without_a_merge_snapshot_is_refused(lab: Lab) -> None:
    foreign.append(lab.mirror, [(7, "theirs")])
    snapshots = [snapshot.snapshot_id for snapshot in lab.mirror.snapshots()]
    for snapshot_id in snapshots[:-1]:
        lab.mirror.maintenance.expire_snapshots().by_id(snapshot_id).commit()
    foreign.append(lab.mirror, [(8, "theirs")])
    with lab.mirror.transaction() as transaction:
        transaction.remove_properties("icemirror.cursor")
    lab.commit_events("U1@90")
    error = lab.try_merge().error
    assert error is not None
    assert "none of its ancestors is" in error.message


def test_indexed_foreign_writes_are_not_read_again(any_lab: Lab) -> None:
    foreign.delete_rows(any_lab.mirror, [1])
    assert read_mirror(any_lab.mirror, "lab.world").has_foreign_writes
    any_lab.commit_events("U2@90")
    any_lab.merge()
    assert not read_mirror(any_lab.mirror, "lab.world").has_foreign_writes


def test_failed_indexing_of_foreign_writes_leaves_no_files(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Corrupt("the table lost rows that the key index does not know")

    foreign.append(lab.mirror, [(7, "theirs")])
    lab.commit_events("U1@90")
    before = lab.files_on_disk()
    monkeypatch.setattr(index_foreign_writes, "apply_foreign_writes", refuse)
    error = lab.try_merge().error
    assert error is not None
    assert error.kind is Kind.CORRUPT
    assert lab.files_on_disk() == before
