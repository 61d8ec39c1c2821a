"""Resyncs with lost responses, concurrent writers and stale catalogs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.errors import CommitUnknown, Transient
from icemirror.protocol.replay import Replay
from icemirror.step_results import MeasuredBacklog, Staged
from spark_job.commands.lag import LagMeter
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.commit.row_delta import RowDelta
from spark_job.commit.swap_snapshot import Swap
from spark_job.engine.engine import InProcessEngine
from spark_job.engine.work import Result, Work
from spark_job.iceberg import stage
from spark_job.iceberg.catalogs import ChangelogDropped
from spark_job.iceberg.mirror import read_mirror
from spark_job.iceberg.property_names import (
    PROPERTY_EPOCH,
    PROPERTY_FORMER_SOURCES,
    PROPERTY_REPLAY,
    PROPERTY_SOURCE,
)
from spark_job.iceberg.stage_file import STAGE_FILE_SUFFIX
from spark_job.maintenance.orphans import clean_orphans
from spark_job.plan.describe_plan import describe_plan
from spark_job.rebuild import rebuild, swap_stage
from spark_job.rebuild.replay import replay_step
from spark_job.rebuild.resync import plan_with_resync
from tests.lab import foreign
from tests.lab.lab import ID_AND_NAME
from tests.lab.recreated_changelog import OLD, make, recreate_changelog, steps


def test_events_committed_just_before_the_swap_to_empty_are_merged_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = recreate_changelog(make(tmp_path))
    commit = Swap.commit

    def commit_after_new_event(self: RowDelta) -> object:
        lab.commit_events("I1@1=quick")
        return commit(self)

    monkeypatch.setattr(Swap, "commit", commit_after_new_event)
    assert lab.merge().outcome == "rebuilt"
    assert lab.rows() == {1: "quick"}


def test_resync_does_not_return_to_a_dropped_changelog(tmp_path: Path) -> None:
    """A stale catalog replica that returns the dropped changelog causes no rebuild."""
    lab = make(tmp_path)
    stale_metadata = lab.changelog.refresh().metadata_location
    uuid = str(lab.changelog.metadata.table_uuid)
    lab = recreate_changelog(lab)
    lab.commit_events("I1@1=new")
    lab.merge()
    assert lab.mirror.properties[PROPERTY_FORMER_SOURCES] == uuid
    assert lab.mirror.properties[PROPERTY_SOURCE].endswith(str(lab.changelog.metadata.table_uuid))
    lab.catalog.drop_table("lab.world_changelog")
    lab.catalog.register_table("lab.world_changelog", stale_metadata)
    result = lab.try_merge()
    assert result.error is not None
    assert (result.error.kind, lab.rows()) == ("transient", {1: "new"})
    # A requested rebuild follows the old changelog.
    request = Replay("full-1", 0.0, full=True)
    while not (step := replay_step(lab.pipeline, lab.table, request)).done:
        request = replace(request, progress=step.progress)
    assert lab.rows() == OLD
    assert lab.merge().outcome == "up-to-date"


def test_swap_with_lost_response_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = recreate_changelog(make(tmp_path, batch=1000))
    lab.commit_events("I1@1=new")
    commit = Swap.commit

    def commit_without_response(self: RowDelta) -> object:
        commit(self)
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(Swap, "commit", commit_without_response)
        result = lab.try_merge()
    assert result.error is not None
    assert result.error.kind == "commit-unknown"
    assert (lab.merge().outcome, lab.rows()) == ("up-to-date", {1: "new"})
    labels = [snapshot.summary[PROPERTY_REPLAY] for snapshot in lab.mirror.snapshots() if snapshot.summary]
    assert len([label for label in labels if label and label.startswith(stage.RESYNC_PREFIX)]) == 1


def test_swap_retries_after_a_concurrent_foreign_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = recreate_changelog(make(tmp_path, batch=1000))
    lab.commit_events("I1@1=new")
    commit, deleted_ids = Swap.commit, list[int]()

    def commit_after_foreign_write(self: RowDelta) -> object:
        if not deleted_ids:
            deleted_ids.append(1)
            foreign.delete_rows(lab.mirror, deleted_ids)
        return commit(self)

    monkeypatch.setattr(Swap, "commit", commit_after_foreign_write)
    assert (lab.merge().outcome, lab.rows()) == ("rebuilt", {1: "new"})


def test_two_concurrent_resyncs_commit_one_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = recreate_changelog(make(tmp_path, batch=2))
    lab.commit_events("I1@1=new I2@1", "I3@1 I4@1")
    other = lab.reconfigure(extra_config="batch_size: 2\n", engine=InProcessEngine())
    merge, nested = rebuild._stage_slice, list[object]()

    def merge_after_the_other(*arguments: object) -> object:
        if not nested:
            nested.append(True)
            nested.append(other.merge().outcome)
        return merge(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rebuild, "_stage_slice", merge_after_the_other)
    result = lab.merge()
    assert nested == [True, "rebuilt"]
    assert result.outcome in ("up-to-date", "merged")
    labels = [snapshot.summary[PROPERTY_REPLAY] for snapshot in lab.mirror.snapshots() if snapshot.summary]
    assert len([label for label in labels if label and label.startswith(stage.RESYNC_PREFIX)]) == 1
    assert len(lab.rows()) == 4
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal


def test_mirror_rolled_back_to_before_the_resync_is_rebuilt_again(tmp_path: Path) -> None:
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
    epochs = [
        int(snapshot.summary[PROPERTY_EPOCH] or 0) for snapshot in lab.mirror.snapshots() if snapshot.summary
    ]
    assert epochs == sorted(set(epochs))


def test_leftover_stage_file_is_not_mistaken_for_a_running_resync(
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


def test_plan_and_backlog_report_a_resync_before_it_starts(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1 I2@1", "I3@1")
    plan = describe_plan(plan_with_resync(lab.pipeline.planner, lab.table, scan_truncations=False))
    assert (plan.rebuilds_mirror, plan.creates_mirror, plan.fills_mirror, plan.events) == (
        True,
        False,
        False,
        3,
    )
    backlog = LagMeter(lab.settings).measure_backlog(lab.table)
    assert isinstance(backlog, MeasuredBacklog)
    assert backlog.events == 3
    assert lab.rows() == OLD


def test_snapshot_of_a_resync_is_labeled(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1")
    lab.merge()
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert (head.summary[PROPERTY_REPLAY] or "").startswith(stage.RESYNC_PREFIX)
    mirror = read_mirror(lab.mirror, "lab.world")
    assert mirror.cursor is not None
    assert mirror.cursor.source.uuid == str(lab.changelog.metadata.table_uuid)


def test_stale_state_of_the_recreated_changelog_is_transient(
    tmp_path: Path,
) -> None:
    lab = recreate_changelog(make(tmp_path, "on_expired_cursor: rebuild"))
    lab.commit_events("I1@1 I2@1", "I3@1 I4@1")
    assert isinstance(lab.pipeline.advance(lab.table), Staged)
    stale_metadata = lab.changelog.refresh().metadata_location
    lab.commit_events("I5@2")
    steps(lab)
    lab.merge()
    lab.catalog.drop_table("lab.world_changelog")
    lab.catalog.register_table("lab.world_changelog", stale_metadata)
    with pytest.raises(Transient):
        lab.pipeline.advance(lab.table)
    assert len(lab.rows()) == 5


@pytest.mark.parametrize("rebuilding", [False, True])
def test_changelog_purged_and_recreated_during_a_merge_is_followed(tmp_path: Path, rebuilding: bool) -> None:
    """The planned files are missing, but nothing is damaged."""
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
    purging = lab.reconfigure(extra_config="batch_size: 3\n", engine=Purging())
    assert purging.merge().outcome == "rebuilt"
    assert purging.rows() == {2: "anew"}


def test_changelog_dropped_during_a_resync_is_waited_for(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@9")

    class Dropping(InProcessEngine):
        def run(self, work: Work[Result]) -> list[Result]:
            lab.catalog.purge_table("lab.world_changelog")
            return super().run(work)

    dropping = lab.reconfigure(extra_config="batch_size: 3\n", engine=Dropping())
    with pytest.raises(ChangelogDropped):
        dropping.pipeline.advance(dropping.table)
    assert lab.rows() == OLD


def test_stage_with_a_missing_file_blocks_and_is_rebuilt_by_the_next_merge(tmp_path: Path) -> None:
    lab = make(tmp_path, batch=1000)
    known = set((tmp_path / "warehouse").rglob("*.parquet"))
    lab = recreate_changelog(lab)
    lab.commit_events("I1@1=new")
    assert isinstance(lab.pipeline.advance(lab.table), Staged)
    staged = set((tmp_path / "warehouse").rglob("lab/world/data/*.parquet")) - known
    for path in staged:
        path.unlink()
    result = lab.try_merge()
    assert result.error is not None
    assert (result.error.kind, lab.rows()) == ("corrupt", OLD)
    assert "`icemirror resume`" in result.error.message
    assert (lab.merge().outcome, lab.rows()) == ("rebuilt", {1: "new"})


def test_files_of_a_resync_are_not_orphans(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1=new I2@1", "I3@1 I4@1")
    assert isinstance(lab.pipeline.advance(lab.table), Staged)
    before = lab.files_on_disk()
    for path in (lab.folder / "warehouse").rglob("*.*"):
        if path.is_file() and not path.name.endswith(STAGE_FILE_SUFFIX):
            os.utime(path, (path.stat().st_mtime - 3600,) * 2)
    deleted = clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=600)
    assert (deleted.files, lab.files_on_disk()) == (0, before)
    assert lab.merge().outcome == "rebuilt"
    assert lab.rows() == {1: "new", 2: "I2@1", 3: "I3@1", 4: "I4@1"}


def test_mirror_rolled_back_to_before_it_was_emptied_is_emptied_again(tmp_path: Path) -> None:
    lab = make(tmp_path)
    before = lab.mirror.metadata.current_snapshot_id
    assert before is not None
    lab = recreate_changelog(lab)
    assert (lab.merge().outcome, lab.rows()) == ("rebuilt", {})
    with lab.mirror.manage_snapshots() as manage:
        manage.set_current_snapshot(snapshot_id=before)
    assert (lab.merge().outcome, lab.rows()) == ("rebuilt", {})


@pytest.mark.parametrize("base", ["emptied mirror", "older snapshot"])
def test_foreign_write_is_accepted_on_the_emptied_mirror_and_refused_on_an_older_snapshot(
    tmp_path: Path, base: str
) -> None:
    """Also after all snapshots that link the write to the resync expired."""
    lab = make(tmp_path)
    before = lab.mirror.metadata.current_snapshot_id
    lab = recreate_changelog(lab)
    lab.merge()
    if base == "older snapshot":
        with lab.mirror.manage_snapshots() as manage:
            manage.set_current_snapshot(snapshot_id=before)
    foreign.append(lab.mirror, [(77, "theirs")])
    written, head = lab.rows(), lab.mirror.metadata.current_snapshot_id
    with lab.mirror.maintenance.expire_snapshots() as expiry:
        expiry.by_ids(
            [snapshot.snapshot_id for snapshot in lab.mirror.snapshots() if snapshot.snapshot_id != head]
        )
    lab.commit_events("I1@1=new")
    result = lab.try_merge()
    if base == "emptied mirror":
        assert (result.outcome, lab.rows()) == ("merged", {77: "theirs", 1: "new"})
    else:
        assert result.error is not None
        assert "none of its ancestors is" in result.error.message
        assert lab.rows() == written
