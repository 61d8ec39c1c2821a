"""A rebuild beside a mirror that cannot be read, or cannot be followed on: what may be swapped, and what may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from pyiceberg.table import Table

from icemirror.errors import CommitUnknown, Corrupt, IcemirrorError, Invalid, Transient
from icemirror.protocol.replay import Replay, ReplayStep
from spark_job.commit.row_delta import RowDelta
from spark_job.commit.swap import Swap
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.rebuild import rebuild
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import Lab

FULL = Replay("full-1", 0.0, full=True)
Fail = Callable[[Lab, pytest.MonkeyPatch, IcemirrorError], None]


def make(folder: Path) -> tuple[Lab, ReplayStep]:
    """A mirror, and a stage that has merged all that was there when it was begun."""
    lab = Lab.make(folder)
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    return lab, replay_step(lab.pipeline, lab.table, FULL)


def go_on(lab: Lab, before: ReplayStep) -> ReplayStep:
    return replay_step(lab.pipeline, lab.table, replace(FULL, progress=before.progress))


def fail_to_read_the_mirror(lab: Lab, patch: pytest.MonkeyPatch, error: IcemirrorError) -> None:
    mirror = lab.mirror.metadata_location

    def read(table: Table, name: str) -> Mirror:
        if table.metadata_location == mirror:
            raise error
        return read_mirror(table, name)

    patch.setattr(rebuild, "read_mirror", read)


def fail_to_plan_for_the_mirror(lab: Lab, patch: pytest.MonkeyPatch, error: IcemirrorError) -> None:
    def plan(*_: object) -> NoReturn:
        raise error

    patch.setattr(rebuild, "plan_backlog", plan)


@pytest.mark.parametrize("fail", [fail_to_read_the_mirror, fail_to_plan_for_the_mirror])
def test_an_error_that_passes_lets_no_stage_take_the_place_of_what_overtook_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail
) -> None:
    lab, one = make(tmp_path)
    lab.commit_events("U1@9=newer")
    lab.merge()
    with monkeypatch.context() as patch:
        fail(lab, patch, Transient("no answer"))
        with pytest.raises(Transient, match="no answer"):
            go_on(lab, one)
    assert lab.rows()[1] == "newer"
    two = go_on(lab, one)
    assert (two.done, lab.rows()[1]) == (False, "newer")
    assert (go_on(lab, two).done, lab.rows()[1]) == (True, "newer")


@pytest.mark.parametrize(
    ("fail", "error"),
    [
        (fail_to_read_the_mirror, Invalid("no history")),
        (fail_to_read_the_mirror, Corrupt("damaged")),
        (fail_to_plan_for_the_mirror, Invalid("rolled back")),
    ],
)
def test_a_mirror_that_only_a_rebuild_can_mend_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail, error: IcemirrorError
) -> None:
    lab, one = make(tmp_path)
    lab.commit_events("U1@9=newer")
    fail(lab, monkeypatch, error)
    assert go_on(lab, one).rebuilt
    assert lab.rows() == {1: "I1@1", 2: "I2@1"}  # the rest is merged after it


def test_where_the_changelog_was_rolled_back_the_stage_goes_past_what_the_mirror_has_merged(
    tmp_path: Path,
) -> None:
    lab, one = make(tmp_path)
    begun = lab.changelog.refresh().current_snapshot()
    assert begun is not None
    lab.commit_events("U1@9=undone")
    lab.merge()
    lab.changelog.refresh().manage_snapshots().rollback_to_snapshot(begun.snapshot_id).commit()
    lab.changelog.refresh()
    lab.commit_events("U2@9=newer")
    assert lab.try_merge().error is not None
    two = go_on(lab, one)
    assert (two.done, lab.rows()) == (False, {1: "undone", 2: "I2@1"})
    three = go_on(lab, two)
    assert (three.rebuilt, lab.rows()) == (True, {1: "I1@1", 2: "newer"})


def test_a_swap_whose_answer_was_lost_is_known_after_its_snapshot_has_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, one = make(tmp_path)
    commit = Swap.commit

    def unheard(self: RowDelta) -> NoReturn:
        commit(self)
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(Swap, "commit", unheard)
        with pytest.raises(CommitUnknown):
            go_on(lab, one)
    lab.commit_events("I3@9")
    lab.merge()
    table = lab.mirror
    head = table.metadata.current_snapshot_id
    with table.maintenance.expire_snapshots() as expiry:
        expiry.by_ids([one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id != head])
    before = lab.mirror.metadata_location
    again = go_on(lab, one)
    assert (again.done, again.rebuilt, lab.mirror.metadata_location) == (True, True, before)


@pytest.mark.parametrize("readable", [True, False])
def test_a_changelog_that_is_shown_as_it_was_lets_no_stage_take_the_place_of_what_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    """The stage has merged all that is shown, and less than what was there when it was begun."""
    lab = Lab.make(tmp_path, tail="batch_size: 2\n")
    lab.commit_events("I1@1 I2@1")
    earlier = lab.pipeline.catalogs.load_changelog(lab.table)
    lab.commit_events("U1@9=newer U2@9=newer")
    lab.merge()
    one = replay_step(lab.pipeline, lab.table, FULL)
    with monkeypatch.context() as patch:
        patch.setattr(type(lab.pipeline.catalogs), "load_changelog", lambda *_: earlier)
        if not readable:
            fail_to_read_the_mirror(lab, patch, Corrupt("damaged"))
        with pytest.raises(Transient, match="before commit 2"):
            go_on(lab, one)
    assert lab.rows() == {1: "newer", 2: "newer"}
    two = go_on(lab, one)
    assert (go_on(lab, two).rebuilt, lab.rows()) == (True, {1: "newer", 2: "newer"})


def test_a_changelog_that_is_shown_without_any_event_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path)
    earlier = lab.pipeline.catalogs.load_changelog(lab.table)
    assert earlier.current_snapshot() is None
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    monkeypatch.setattr(type(lab.pipeline.catalogs), "load_changelog", lambda *_: earlier)
    with pytest.raises(Transient, match="without the events"):
        replay_step(lab.pipeline, lab.table, FULL)


def test_a_changelog_that_was_rolled_back_for_good_is_followed(tmp_path: Path) -> None:
    lab, one = make(tmp_path)
    begun = lab.changelog.refresh().current_snapshot()
    assert begun is not None
    lab.commit_events("U1@9=undone")
    lab.merge()
    lab.changelog.refresh().manage_snapshots().rollback_to_snapshot(begun.snapshot_id).commit()
    assert (go_on(lab, one).rebuilt, lab.rows()) == (True, {1: "I1@1", 2: "I2@1"})
