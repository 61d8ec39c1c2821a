"""`on_truncate: stop`: a truncation blocks the table until the user acts."""

from __future__ import annotations

from pathlib import Path

from tests.lab.recreated_changelog import lose_history
from tests.lab.truncations import commit_events, filled, is_verified, make, rebuild_now


def test_stop_names_the_row_and_writes_nothing(tmp_path: Path) -> None:
    lab = filled(tmp_path, "on_truncate: stop")
    before = lab.mirror.metadata_location, lab.files_on_disk()
    commit_events(lab, "I9@3 T@4")
    error = lab.try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    assert "row 1 reports a truncation of the source ('TRUNCATE')" in error.message
    assert "replay --full" in error.message
    assert (lab.mirror.metadata_location, lab.files_on_disk()) == before


def test_stop_applies_to_a_rebuild_after_an_expired_cursor(tmp_path: Path) -> None:
    lab = filled(tmp_path, "on_truncate: stop\non_expired_cursor: rebuild")
    before = lab.rows()
    commit_events(lab, "I9@3")
    commit_events(lab, "T@4 I1@5=n")
    commit_events(lab, "I2@6=n")
    lose_history(lab)
    error = lab.try_merge().error
    assert error is not None
    assert "reports a truncation" in error.message
    assert lab.rows() == before
    rebuild_now(lab)
    commit_events(lab, "I3@7=n")
    commit_events(lab, "I4@8=n")
    lose_history(lab)
    lab.merge()  # a truncation that the user followed is not new
    assert lab.rows() == dict.fromkeys((1, 2, 3, 4), "n")


def test_requested_rebuild_follows_the_truncation_that_blocked_the_table(tmp_path: Path) -> None:
    lab = filled(tmp_path, "on_truncate: stop")
    commit_events(lab, "I9@3 T@4 I1@5=n")
    assert lab.try_merge().error is not None
    rebuild_now(lab)
    assert lab.rows() == {1: "n"}
    lab.merge()
    assert is_verified(lab)


def test_stop_applies_to_the_first_merge(tmp_path: Path) -> None:
    lab = make(tmp_path, "on_truncate: stop")
    commit_events(lab, "I9@3 T@4")
    error = lab.try_merge().error
    assert error is not None
    assert "reports a truncation" in error.message
    assert not lab.catalog.table_exists("lab.world")
