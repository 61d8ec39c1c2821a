"""Rebuilds by policy in doubt: answers that are lost, others at work, catalogs that show what was."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.errors import CommitUnknown, Transient
from icemirror.protocol.replay import Replay
from icemirror.result import MeasuredBacklog, Staged
from spark_job.commit.row_delta import RowDelta
from spark_job.commit.swap import Swap
from spark_job.engine.engine import InProcessEngine
from spark_job.engine.work import Result, Work
from spark_job.iceberg import stage
from spark_job.iceberg.mirror import EPOCH, FORMER_SOURCES, REPLAY, SOURCE, read_mirror
from spark_job.iceberg.missing_changelog import ChangelogDropped
from spark_job.inspect.verify.verify_table import VerifyOptions, verify_table
from spark_job.maintenance.orphans import clean_orphans
from spark_job.plan.planner import describe_plan
from spark_job.rebuild import rebuild, swap_stage
from spark_job.rebuild.replay import replay_step
from spark_job.rebuild.resync import plan_with_resync
from spark_job.worker.lag import LagMeter
from tests.lab import foreign
from tests.lab.lab import ID_AND_NAME
from tests.lab.recreated_changelog import OLD, make, recreate_changelog, steps


def test_events_that_come_between_the_look_and_the_swap_to_empty_are_merged_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = recreate_changelog(make(tmp_path))
    commit = Swap.commit

    def late(self: RowDelta) -> object:
        lab.commit_events("I1@1=quick")
        return commit(self)

    monkeypatch.setattr(Swap, "commit", late)
    assert lab.merge().outcome == "rebuilt"
    assert lab.rows() == {1: "quick"}


def test_a_table_that_was_dropped_before_is_not_followed_back(tmp_path: Path) -> None:
    """A replica of the catalog that shows the table of yesterday is no reason to rebuild."""
    lab = make(tmp_path)
    shown = lab.changelog.refresh().metadata_location
    uuid = str(lab.changelog.metadata.table_uuid)
    lab = recreate_changelog(lab)
    lab.commit_events("I1@1=new")
    lab.merge()
    assert lab.mirror.properties[FORMER_SOURCES] == uuid
    assert lab.mirror.properties[SOURCE].endswith(str(lab.changelog.metadata.table_uuid))
    lab.catalog.drop_table("lab.world_changelog")
    lab.catalog.register_table("lab.world_changelog", shown)
    result = lab.try_merge()
    assert result.error is not None
    assert (result.error.kind, lab.rows()) == ("transient", {1: "new"})
    # Where somebody means it, they say so.
    asked = Replay("full-1", 0.0, full=True)
    while not (step := replay_step(lab.pipeline, lab.table, asked)).done:
        asked = replace(asked, progress=step.progress)
    assert lab.rows() == OLD
    assert lab.merge().outcome == "up-to-date"


def test_a_swap_whose_answer_was_lost_is_not_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = recreate_changelog(make(tmp_path, batch=1000))
    lab.commit_events("I1@1=new")
    commit = Swap.commit

    def unheard(self: RowDelta) -> object:
        commit(self)
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(Swap, "commit", unheard)
        result = lab.try_merge()
    assert result.error is not None
    assert result.error.kind == "commit-unknown"
    assert (lab.merge().outcome, lab.rows()) == ("up-to-date", {1: "new"})
    labels = [one.summary[REPLAY] for one in lab.mirror.snapshots() if one.summary]
    assert len([one for one in labels if one and one.startswith(stage.RESYNC_PREFIX)]) == 1


def test_a_mirror_that_others_write_to_before_the_swap_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = recreate_changelog(make(tmp_path, batch=1000))
    lab.commit_events("I1@1=new")
    commit, moved = Swap.commit, list[int]()

    def overtaken(self: RowDelta) -> object:
        if not moved:
            moved.append(1)
            foreign.delete_rows(lab.mirror, moved)
        return commit(self)

    monkeypatch.setattr(Swap, "commit", overtaken)
    assert (lab.merge().outcome, lab.rows()) == ("rebuilt", {1: "new"})


def test_two_at_the_same_rebuild_end_with_one_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = recreate_changelog(make(tmp_path, batch=2))
    lab.commit_events("I1@1=new I2@1", "I3@1 I4@1")
    other = lab.reconfigure(tail="batch_size: 2\n", engine=InProcessEngine())
    merge, nested = rebuild._merge_slice, list[object]()

    def meanwhile(*given: object) -> object:
        if not nested:
            nested.append(True)
            nested.append(other.merge().outcome)
        return merge(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(rebuild, "_merge_slice", meanwhile)
    mine = lab.merge()
    assert nested == [True, "rebuilt"]
    assert mine.outcome in ("up-to-date", "merged")
    labels = [one.summary[REPLAY] for one in lab.mirror.snapshots() if one.summary]
    assert len([one for one in labels if one and one.startswith(stage.RESYNC_PREFIX)]) == 1
    assert len(lab.rows()) == 4
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal


def test_a_mirror_that_is_rolled_back_to_before_the_rebuild_is_rebuilt_again(tmp_path: Path) -> None:
    lab = make(tmp_path)
    before = lab.mirror.metadata.current_snapshot_id
    assert before is not None
    lab = recreate_changelog(lab)
    lab.commit_events("I1@1=new")
    lab.merge()
    with lab.mirror.manage_snapshots() as manage:
        manage.set_current_snapshot(snapshot_id=before)
    assert lab.rows() == OLD
    assert lab.merge().outcome == "rebuilt"
    assert lab.rows() == {1: "new"}
    epochs = [int(one.summary[EPOCH] or 0) for one in lab.mirror.snapshots() if one.summary]
    assert epochs == sorted(set(epochs))


def test_a_stage_file_that_could_not_be_removed_is_not_taken_for_a_rebuild_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path)
    before = lab.mirror.metadata.current_snapshot_id
    assert before is not None
    lab = recreate_changelog(lab)
    lab.commit_events("I1@1=new")
    with monkeypatch.context() as patch:
        patch.setattr(swap_stage, "_remove_stage", lambda *_: None)
        lab.merge()
    with lab.mirror.manage_snapshots() as manage:
        manage.set_current_snapshot(snapshot_id=before)
    lab.commit_events("I2@2")
    assert lab.merge().outcome == "rebuilt"
    assert lab.rows() == {1: "new", 2: "I2@2"}


def test_what_will_be_rebuilt_can_be_asked_before(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1 I2@1", "I3@1")
    plan = describe_plan(plan_with_resync(lab.pipeline.planner, lab.table, scan_truncations=False))
    assert (plan.rebuilds_mirror, plan.creates_mirror, plan.fills_mirror, plan.events) == (
        True,
        False,
        False,
        3,
    )
    behind = LagMeter(lab.settings).measure_backlog(lab.table)
    assert isinstance(behind, MeasuredBacklog)
    assert behind.events == 3
    assert lab.rows() == OLD


def test_a_rebuild_by_policy_is_known_by_its_snapshot(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1")
    lab.merge()
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert (head.summary[REPLAY] or "").startswith(stage.RESYNC_PREFIX)
    mirror = read_mirror(lab.mirror, "lab.world")
    assert mirror.cursor is not None
    assert mirror.cursor.source.uuid == str(lab.changelog.metadata.table_uuid)


def test_a_catalog_that_shows_the_new_changelog_without_its_events_is_no_reason_to_swap(
    tmp_path: Path,
) -> None:
    lab = recreate_changelog(make(tmp_path, "on_expired_cursor: rebuild"))
    lab.commit_events("I1@1 I2@1", "I3@1 I4@1")
    assert isinstance(lab.pipeline.advance(lab.table), Staged)
    shown = lab.changelog.refresh().metadata_location
    lab.commit_events("I5@2")
    steps(lab)
    lab.merge()
    lab.catalog.drop_table("lab.world_changelog")
    lab.catalog.register_table("lab.world_changelog", shown)
    with pytest.raises(Transient):
        lab.pipeline.advance(lab.table)
    assert len(lab.rows()) == 5


@pytest.mark.parametrize("rebuilding", [False, True])
def test_a_changelog_that_is_purged_and_made_anew_under_a_merge_is_followed(
    tmp_path: Path, rebuilding: bool
) -> None:
    """The files that were planned are gone: that is no damage."""
    lab = make(tmp_path)
    if rebuilding:
        lab = recreate_changelog(lab)
    lab.commit_events("I1@9=never-seen")

    class Purging(InProcessEngine):
        def run(self, work: Work[Result]) -> list[Result]:
            if not purged:
                purged.append(True)
                lab.catalog.purge_table("lab.world_changelog")
                changelog = lab.catalog.create_table("lab.world_changelog", ID_AND_NAME)
                replace(lab, changelog=changelog).commit_events("I2@1=anew")
            return super().run(work)

    purged: list[bool] = []
    other = lab.reconfigure(tail="batch_size: 3\n", engine=Purging())
    assert other.merge().outcome == "rebuilt"
    assert other.rows() == {2: "anew"}


def test_a_changelog_that_is_dropped_under_a_rebuild_is_waited_for(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@9")

    class Dropping(InProcessEngine):
        def run(self, work: Work[Result]) -> list[Result]:
            lab.catalog.purge_table("lab.world_changelog")
            return super().run(work)

    other = lab.reconfigure(tail="batch_size: 3\n", engine=Dropping())
    with pytest.raises(ChangelogDropped):
        other.pipeline.advance(other.table)
    assert lab.rows() == OLD


def test_a_stage_of_which_somebody_took_a_file_is_built_again_after_a_person_looked(tmp_path: Path) -> None:
    lab = make(tmp_path, batch=1000)
    known = set((tmp_path / "warehouse").rglob("*.parquet"))
    lab = recreate_changelog(lab)
    lab.commit_events("I1@1=new")
    assert isinstance(lab.pipeline.advance(lab.table), Staged)
    changed = set((tmp_path / "warehouse").rglob("lab/world/data/*.parquet")) - known
    for path in changed:
        path.unlink()
    result = lab.try_merge()
    assert result.error is not None
    assert (result.error.kind, lab.rows()) == ("corrupt", OLD)
    assert "`icemirror resume`" in result.error.message
    assert (lab.merge().outcome, lab.rows()) == ("rebuilt", {1: "new"})


def test_files_of_a_rebuild_by_policy_are_no_orphans(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1=new I2@1", "I3@1 I4@1")
    assert isinstance(lab.pipeline.advance(lab.table), Staged)
    before = lab.files_on_disk()
    for path in (lab.folder / "warehouse").rglob("*.*"):
        if path.is_file() and not path.name.endswith(stage.SUFFIX):
            os.utime(path, (path.stat().st_mtime - 3600,) * 2)
    kept = clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=600)
    assert (kept.files, lab.files_on_disk()) == (0, before)
    assert lab.merge().outcome == "rebuilt"
    assert lab.rows() == {1: "new", 2: "I2@1", 3: "I3@1", 4: "I4@1"}


def test_a_mirror_that_is_rolled_back_to_before_it_was_emptied_is_emptied_again(tmp_path: Path) -> None:
    lab = make(tmp_path)
    before = lab.mirror.metadata.current_snapshot_id
    assert before is not None
    lab = recreate_changelog(lab)
    assert (lab.merge().outcome, lab.rows()) == ("rebuilt", {})
    with lab.mirror.manage_snapshots() as manage:
        manage.set_current_snapshot(snapshot_id=before)
    assert (lab.merge().outcome, lab.rows()) == ("rebuilt", {})


@pytest.mark.parametrize("others", ["go on from where it was empty", "go on from before that"])
def test_what_others_write_after_the_mirror_was_emptied_is_told_from_what_was_before(
    tmp_path: Path, others: str
) -> None:
    """Also when all that ties their snapshot to the rebuild has expired."""
    lab = make(tmp_path)
    before = lab.mirror.metadata.current_snapshot_id
    lab = recreate_changelog(lab)
    lab.merge()
    if others == "go on from before that":
        with lab.mirror.manage_snapshots() as manage:
            manage.set_current_snapshot(snapshot_id=before)
    foreign.append(lab.mirror, [(77, "theirs")])
    seen, head = lab.rows(), lab.mirror.metadata.current_snapshot_id
    with lab.mirror.maintenance.expire_snapshots() as expiry:
        expiry.by_ids([one.snapshot_id for one in lab.mirror.snapshots() if one.snapshot_id != head])
    lab.commit_events("I1@1=new")
    result = lab.try_merge()
    if others == "go on from where it was empty":
        assert (result.outcome, lab.rows()) == ("merged", {77: "theirs", 1: "new"})
    else:
        assert result.error is not None
        assert "none of its ancestors is" in result.error.message
        assert lab.rows() == seen
