"""Other writers on the mirror: their rows are indexed, their deletes become tombstones, and merging continues."""

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
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """Either format version, for tests without writes of PyIceberg, which supports only v2."""
    return make(tmp_path, request.param)


def test_rows_that_another_writer_appended_are_updated_and_deleted_like_our_own(lab: Lab) -> None:
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


def test_a_compaction_keeps_the_order_of_every_row(lab: Lab) -> None:
    rows = lab.rows()
    foreign.compact(lab.mirror)
    lab.commit_events("U1@9=old U2@69=old D4@39 U5@51=new I3@79=old")
    result = lab.merge().slices[0]
    assert (result.updated, result.stale) == (1, 4)
    assert lab.rows() == {**rows, 5: "new"}


def test_rows_that_another_writer_deleted_come_back_only_by_newer_events(either: Lab) -> None:
    foreign.delete_rows(either.mirror, [1, 2, 4])
    either.commit_events("U1@9=old U2@70=same U4@41=new I7@90")
    either.merge()
    assert either.rows() == {2: "same", 4: "new", 5: "I5@50", 6: "I6@60", 7: "I7@90"}
    either.commit_events("U1@11=newer D5@95")
    either.merge()
    assert either.rows() == {1: "newer", 2: "same", 4: "new", 6: "I6@60", 7: "I7@90"}


def test_foreign_row_changes_are_logged_as_a_warning(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.mirror.delete("id in (1, 5)")
    lab.commit_events("I7@90")
    lab.merge()
    (told,) = (one for one in caplog.records if one.name == index_foreign_writes.__name__)
    assert (told.levelname, told.getMessage()) == ("WARNING", "foreign writes changed rows")


def test_rows_deleted_copy_on_write_leave_tombstones_too(lab: Lab) -> None:
    lab.mirror.delete("id in (1, 5)")
    lab.commit_events("U1@9=old U5@51=new")
    lab.merge()
    assert lab.rows() == {2: "U2@70", 4: "I4@40", 5: "new", 6: "I6@60"}


def test_an_update_by_another_engine_keeps_the_order_of_the_row(lab: Lab) -> None:
    foreign.delete_rows(lab.mirror, [1, 4])
    foreign.append(lab.mirror, [(1, "theirs"), (4, "theirs")])
    lab.commit_events("U1@9=old U4@41=new")
    lab.merge()
    assert (lab.rows()[1], lab.rows()[4]) == ("theirs", "new")


def test_several_foreign_snapshots_are_indexed_after_ours_expired(lab: Lab) -> None:
    foreign.append(lab.mirror, [(7, "theirs")])
    foreign.compact(lab.mirror)
    foreign.delete_rows(lab.mirror, [6])
    mirror = lab.mirror
    head = mirror.current_snapshot()
    assert head is not None
    for snapshot in mirror.snapshots():
        assert snapshot.summary is not None
        is_ours = "icemirror.cursor" in snapshot.summary.additional_properties
        if snapshot.snapshot_id != head.snapshot_id and is_ours:
            lab.mirror.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    lab.commit_events("U1@90 U7@91")
    lab.merge()
    assert lab.rows() == {1: "U1@90", 2: "U2@70", 4: "I4@40", 5: "I5@50", 7: "U7@91"}


def test_a_rollback_to_an_older_snapshot_of_ours_is_merged_again(either: Lab) -> None:
    ours = [one.snapshot_id for one in either.mirror.snapshots()]
    epoch = int(either.mirror.current_snapshot().summary["icemirror.epoch"])  # type: ignore[union-attr, index, arg-type]
    either.mirror.manage_snapshots().rollback_to_snapshot(ours[0]).commit()
    assert either.rows()[3] == "I3@30"
    either.merge()
    assert 3 not in either.rows()
    assert either.rows()[2] == "U2@70"
    assert int(either.mirror.current_snapshot().summary["icemirror.epoch"]) > epoch  # type: ignore[union-attr, index, arg-type]


def test_a_history_that_leads_to_none_of_our_snapshots_is_refused(lab: Lab) -> None:
    foreign.append(lab.mirror, [(7, "theirs")])
    snapshots = [one.snapshot_id for one in lab.mirror.snapshots()]
    for snapshot_id in snapshots[:-1]:
        lab.mirror.maintenance.expire_snapshots().by_id(snapshot_id).commit()
    foreign.append(lab.mirror, [(8, "theirs")])
    with lab.mirror.transaction() as transaction:
        transaction.remove_properties("icemirror.cursor")
    lab.commit_events("U1@90")
    error = lab.try_merge().error
    assert error is not None
    assert "none of its ancestors is" in error.message


def test_indexed_foreign_writes_are_not_read_again(either: Lab) -> None:
    foreign.delete_rows(either.mirror, [1])
    assert read_mirror(either.mirror, "lab.world").has_foreign_writes
    either.commit_events("U2@90")
    either.merge()
    assert not read_mirror(either.mirror, "lab.world").has_foreign_writes


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
