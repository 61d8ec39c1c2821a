"""Resync: the mirror of a recreated or expired changelog is rebuilt by policy, in one commit."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, LongType, StringType

from icemirror.errors import Invalid, Transient
from icemirror.protocol.replay import Replay
from icemirror.step_results import NothingToMerge, Rebuilt, Staged
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.engine import InProcessEngine
from spark_job.maintenance.orphans import clean_orphans
from spark_job.rebuild.replay import replay_step
from spark_job.worker.tables import WorkerTables
from tests.lab.bad_rows import bad_events
from tests.lab.lab import ID_AND_NAME, Lab, changelog_schema, events
from tests.lab.recreated_changelog import OLD, lose_history, make, recreate_changelog, steps

V2_AND_V3 = pytest.mark.parametrize("version", [2, 3])


@V2_AND_V3
def test_readers_see_the_old_rows_until_the_swap(tmp_path: Path, version: int) -> None:
    lab = recreate_changelog(make(tmp_path, f"format_version: {version}"))
    lab.commit_events("I1@1=new I7@1", "I8@1 I9@1")
    lab.commit_events("U7@2=x D8@2")
    before = len(lab.mirror.metadata.snapshots)
    seen: list[dict[object, object]] = []
    done = steps(lab, lambda: seen.append(lab.rows()))
    new = {1: "new", 7: "x", 9: "I9@1"}
    assert len(done) > 2
    assert seen == [OLD] * (len(done) - 1) + [new]
    assert len(lab.mirror.metadata.snapshots) == before + 1
    assert isinstance(lab.pipeline.advance(lab.table), NothingToMerge)
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    lab.commit_events("U1@9=later D7@9 I3@9")
    lab.merge()
    assert lab.rows() == {1: "later", 3: "I3@9", 9: "I9@1"}
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal


def test_merge_result_reports_the_resync(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1 I2@1", "I3@1 I4@1")
    result = lab.merge()
    assert (result.outcome, result.live_rows, result.slices) == ("rebuilt", 4, ())
    assert result.cursor is not None
    assert result.cursor.source.uuid == str(lab.changelog.metadata.table_uuid)
    lab.commit_events("I5@2")
    after = lab.merge()
    assert (after.outcome, len(after.slices)) == ("merged", 1)


@V2_AND_V3
def test_recreated_changelog_without_events_empties_the_mirror(tmp_path: Path, version: int) -> None:
    lab = recreate_changelog(make(tmp_path, f"format_version: {version}"))
    before = len(lab.mirror.metadata.snapshots)
    result = lab.merge()
    assert (result.outcome, result.live_rows, result.cursor, lab.rows()) == ("rebuilt", 0, None, {})
    assert len(lab.mirror.metadata.snapshots) == before + 1
    assert lab.merge().outcome == "up-to-date"
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    lab.commit_events("I1@1=first")
    assert lab.merge().outcome == "merged"
    assert lab.rows() == {1: "first"}
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal


def test_emptied_mirror_follows_a_changelog_that_is_recreated_again(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.merge()
    lab = recreate_changelog(lab)
    assert lab.merge().outcome == "up-to-date"
    lab = recreate_changelog(lab)
    lab.commit_events("I1@1=third")
    lab.merge()
    assert lab.rows() == {1: "third"}


def test_on_truncate_stop_blocks_a_recreated_changelog_and_commits_nothing(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path, "on_truncate: stop"))
    before = lab.mirror.metadata_location
    for _ in range(2):
        result = lab.try_merge()
        assert result.error is not None
        assert result.error.kind == "invalid"
        assert "was dropped and recreated" in result.error.message
        assert "`icemirror replay --full --table lab.world`" in result.error.message
        lab.commit_events("I1@1")
    assert (lab.mirror.metadata_location, lab.rows()) == (before, OLD)


def test_expired_cursor_blocks_unless_the_policy_is_rebuild(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I7@7")
    lab.commit_events("I8@8")
    lose_history(lab)
    result = lab.try_merge()
    assert result.error is not None
    assert "Events may be missing" in result.error.message
    assert "on_expired_cursor: rebuild" in result.error.message
    assert lab.rows() == OLD
    lab = lab.reconfigure("on_expired_cursor: rebuild", "batch_size: 3\n")
    assert lab.merge().outcome == "rebuilt"
    assert lab.rows() == {**OLD, 7: "I7@7", 8: "I8@8"}
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal


def test_rolled_back_changelog_blocks_under_every_policy(tmp_path: Path) -> None:
    lab = make(tmp_path, "on_expired_cursor: rebuild")
    first = lab.changelog.refresh().snapshots()[0].snapshot_id
    with lab.changelog.manage_snapshots() as manage:
        manage.rollback_to_snapshot(first)
    result = lab.try_merge()
    assert result.error is not None
    assert result.error.kind == "invalid"
    assert "was rolled back" in result.error.message
    assert lab.rows() == OLD


def test_interrupted_resync_resumes(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1 I2@1", "I3@1 I4@1", "I5@1 I6@1")
    first = lab.pipeline.advance(lab.table)
    restarted = lab.reconfigure(extra_config="batch_size: 3\n", engine=InProcessEngine())
    second = restarted.pipeline.advance(restarted.table)
    assert isinstance(first, Staged)
    assert isinstance(second, Staged)
    assert (first.events, first.of_events, second.events) == (2, 6, 4)
    assert restarted.merge().outcome == "rebuilt"
    assert len(restarted.rows()) == 6
    assert {path for path in restarted.files_on_disk() if "stage" in path} == set()
    assert (
        clean_orphans(lambda: restarted.mirror, "lab.world", older_than_seconds=-60, dry_run=True).files == 0
    )


def test_events_committed_during_a_resync_are_kept_and_do_not_delay_the_swap_forever(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1 I2@1", "I3@1 I4@1")
    numbers = iter(range(100, 200))

    def commit_event() -> None:
        number = next(numbers)
        lab.commit_events(f"I{number}@{number}")

    done = steps(lab, commit_event)
    assert len(done) < 20
    lab.merge()
    assert len(lab.rows()) == 4 + len(done)


def test_resync_follows_a_changelog_that_is_recreated_twice_during_it(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1=two I2@1", "I3@1 I4@1")
    assert isinstance(lab.pipeline.advance(lab.table), Staged)
    lab = recreate_changelog(lab)
    lab.commit_events("I1@1=three", "I9@1 I8@1 I7@1")
    assert isinstance(lab.pipeline.advance(lab.table), Staged)
    lab = recreate_changelog(lab)
    lab.commit_events("I1@1=four")
    assert lab.merge().outcome == "rebuilt"
    assert lab.rows() == {1: "four"}
    # Abandoned stages are orphans.
    clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60)
    assert lab.rows() == {1: "four"}
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    assert clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60, dry_run=True).files == 0


def test_worker_waits_until_a_dropped_changelog_is_recreated(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.catalog.drop_table("lab.world_changelog")
    result = lab.try_merge()
    assert result.error is not None
    assert (result.error.kind, lab.rows()) == ("invalid", OLD)
    worker = WorkerTables(lab.settings, "run")
    with pytest.raises(Transient, match="wait until the writer has created it"):
        worker.advance("lab.world")
    lab.catalog.create_table("lab.world_changelog", ID_AND_NAME)
    assert isinstance(worker.advance("lab.world"), Rebuilt)
    assert lab.rows() == {}


def test_missing_changelog_blocks_with_on_truncate_stop_or_without_a_mirror(
    tmp_path: Path,
) -> None:
    lab = make(tmp_path, "on_truncate: stop")
    lab.catalog.drop_table("lab.world_changelog")
    with pytest.raises(Invalid, match="there is no changelog"):
        WorkerTables(lab.settings, "run").advance("lab.world")
    lab.catalog.drop_table("lab.world")
    with pytest.raises(Invalid, match="there is no changelog"):
        WorkerTables(lab.reconfigure().settings, "run").advance("lab.world")


ID: tuple[str, IcebergType] = ("id", LongType())
NAME: tuple[str, IcebergType] = ("name", StringType())


RETYPED = changelog_schema(ID, ("name", LongType()))


@pytest.mark.parametrize("with_events", [True, False])
@pytest.mark.parametrize(
    ("schema", "policy", "message"),
    [
        (
            changelog_schema(ID, NAME, keys=("name",)),
            "permissive",
            "its key is id, but the settings name name",
        ),
        (RETYPED, "strict", "column name"),
    ],
)
def test_incompatible_recreated_changelog_is_refused_before_any_write(
    tmp_path: Path, schema: Schema, policy: str, message: str, with_events: bool
) -> None:
    lab = make(tmp_path).reconfigure(f"schema_policy: {policy}")
    files = lab.files_on_disk()
    lab = recreate_changelog(lab, schema)
    if with_events:
        lab.commit(events("I1@1=1").cast(schema_to_pyarrow(schema)))
    result = lab.try_merge()
    assert result.error is not None
    assert (result.error.kind, lab.rows()) == ("invalid", OLD)
    assert message in result.error.message
    assert lab.files_on_disk() == files


def test_recreated_column_of_another_type_is_a_new_column(tmp_path: Path) -> None:
    lab = recreate_changelog(make(tmp_path), RETYPED)
    lab.commit(events("I1@1=1").cast(schema_to_pyarrow(RETYPED)))
    assert lab.try_merge().outcome == "rebuilt"
    assert lab.rows() == {1: 1}


def test_resync_continues_after_its_next_snapshot_expired(tmp_path: Path) -> None:
    """Otherwise a resync that takes longer than snapshot retention would restart forever."""
    lab = recreate_changelog(make(tmp_path))
    lab.commit_events("I1@1 I2@1", "I3@1")
    lab.commit_events("I4@2 I5@2", "U1@2=b U2@2=b")
    lab.commit_events("D3@3 I6@3", "I7@3")
    reported: list[tuple[int, int]] = []
    while not isinstance(step := lab.pipeline.advance(lab.table), Rebuilt):
        assert isinstance(step, Staged)
        reported.append((step.events, step.of_events))
        lab.commit_events(f"I{100 + len(reported)}@9")
        if len(reported) % 2:
            lose_history(lab)
        assert len(reported) < 20
    assert len(reported) > 2
    assert all(before < after for (before, _), (after, _) in pairwise(reported))
    lab.merge()
    later = {100 + number: f"I{100 + number}@9" for number in range(1, len(reported) + 1)}
    assert lab.rows() == {1: "b", 2: "b", 4: "I4@2", 5: "I5@2", 6: "I6@3", 7: "I7@3", **later}
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal


@pytest.mark.parametrize("requested", [False, True])
def test_rebuild_restarts_after_a_change_of_settings_that_affect_its_rows(
    tmp_path: Path, requested: bool
) -> None:
    """Otherwise rows staged earlier would keep the effect of the old settings: rejects and placeholder values."""
    before = "on_bad_row: quarantine"
    values = "operation_values: {insert: [INSERT], update: [UPDATE, UPSERT], delete: [DELETE]}"
    lab = Lab.make(tmp_path, options=before, extra_config="batch_size: 1\n")
    lab.commit_events("I1@1")
    lab.merge()
    if not requested:
        lab = recreate_changelog(lab)
    lab.commit(bad_events("X1@2=a"))
    lab.commit(bad_events("I2@3=SAME"))
    lab.commit(bad_events("I3@4"))
    if requested:
        lab.merge()
    progress = None

    def step(lab: Lab) -> bool:
        nonlocal progress
        if not requested:
            return isinstance(lab.pipeline.advance(lab.table), Staged)
        result = replay_step(lab.pipeline, lab.table, Replay("r", 0.0, full=True, progress=progress))
        progress = result.progress
        return not result.done

    assert step(lab)
    assert step(lab)
    repaired = lab.reconfigure(f"{before}\n{values}", "batch_size: 1\n")
    while step(repaired):
        pass
    repaired.merge()
    assert repaired.rows() == {1: "a", 2: "SAME", 3: "I3@4"}
