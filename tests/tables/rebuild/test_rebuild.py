"""Full rebuild: built in a hidden stage, swapped in by one commit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.types import LongType, StringType

from icemirror.errors import CommitUnknown, Corrupt, Invalid
from icemirror.protocol.replay import Replay, ReplayProgress
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.commit.row_delta import RowDelta
from spark_job.commit.swap_snapshot import Swap
from spark_job.iceberg import stage
from spark_job.iceberg.property_names import (
    PROPERTY_EPOCH,
    PROPERTY_INDEX_ROOT,
    PROPERTY_REPLAY,
    PROPERTY_SOURCE,
)
from spark_job.index.root import read_root
from spark_job.maintenance.expire import expire
from spark_job.maintenance.orphans import clean_orphans
from spark_job.rebuild.replay import plan_replay, replay_step
from tests.lab import foreign
from tests.lab.lab import Lab, local_path
from tests.lab.rebuilds import FULL, ROWS, make, run_rebuild
from tests.lab.referenced_files import referenced_files

V2_AND_V3 = pytest.mark.parametrize("version", [2, 3])


@V2_AND_V3
@pytest.mark.parametrize("partition", ["", 'partition_by: ["bucket[2](id)"]'])
def test_readers_see_the_old_rows_until_the_swap(tmp_path: Path, version: int, partition: str) -> None:
    lab = make(tmp_path, f"format_version: {version}\n{partition}")
    foreign.delete_rows(lab.mirror, [1, 6])
    old = {3: "c", 5: "I5@1"}
    before = len(lab.mirror.metadata.snapshots)
    seen: list[dict[object, object]] = []
    steps = run_rebuild(lab, lambda: seen.append(lab.rows()))
    assert len(steps) > 2
    assert seen == [old] * (len(steps) - 1) + [ROWS]
    assert len(lab.mirror.metadata.snapshots) == before + 1
    assert (steps[-1].rebuilt, steps[-1].progress.events) == (True, 11)


@V2_AND_V3
def test_rebuilt_mirror_is_complete_and_can_be_merged(tmp_path: Path, version: int) -> None:
    lab = make(tmp_path, f"format_version: {version}")
    run_rebuild(lab)
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary[PROPERTY_REPLAY] == "full-1"
    totals = {name: head.summary[name] for name in ("total-records", "added-records", "total-data-files")}
    assert totals["total-records"] == totals["added-records"]
    assert int(head.summary["deleted-data-files"] or 0) > 0
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    lab.commit_events("U1@9=z D3@9 I2@9=back U5@0=late")
    assert lab.merge().slices[0].stale == 1
    assert lab.rows() == {1: "z", 2: "back", 5: "I5@1", 6: "I6@3"}
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal


def test_swap_increments_the_epoch_and_takes_the_cursor_of_the_stage(tmp_path: Path) -> None:
    lab = make(tmp_path)
    before = lab.mirror.current_snapshot()
    cursor = lab.merge().cursor
    (*_, last) = run_rebuild(lab)
    after = lab.mirror.current_snapshot()
    assert before is not None
    assert after is not None
    assert before.summary is not None
    assert after.summary is not None
    assert int(after.summary[PROPERTY_EPOCH] or 0) == int(before.summary[PROPERTY_EPOCH] or 0) + 1
    assert last.mirror_status is not None
    assert last.mirror_status.cursor == cursor == lab.merge().cursor


def test_swap_leaves_no_orphans_and_expire_deletes_the_old_files(tmp_path: Path) -> None:
    lab = make(tmp_path)
    run_rebuild(lab)
    assert {path for path in lab.files_on_disk() if "stage" in path} == set()
    orphans = clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60, dry_run=True)
    assert orphans.files == 0, orphans.paths
    with lab.mirror.transaction() as change:
        keep = {"history.expire.min-snapshots-to-keep": "1", "history.expire.max-snapshot-age-ms": "1"}
        change.set_properties(keep)
    expire(lab.mirror, "lab.world")
    assert lab.rows() == ROWS
    assert clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60).files == 0
    assert lab.rows() == ROWS


def test_commits_during_a_rebuild_are_merged_before_or_after_the_swap(tmp_path: Path) -> None:
    lab = make(tmp_path)
    numbers = iter(range(100, 200))

    def commit_event() -> None:
        number = next(numbers)
        lab.commit_events(f"I{number}@{number}")

    steps = run_rebuild(lab, commit_event)
    assert len(steps) < 20, "a busy changelog does not prevent the swap"
    lab.merge()
    assert len(lab.rows()) == len(ROWS) + len(steps)


def test_stage_overtaken_by_the_mirror_is_not_swapped_in(tmp_path: Path) -> None:
    lab = make(tmp_path, batch=1000)
    first = replay_step(lab.pipeline, lab.table, FULL)
    assert not first.done
    lab.commit_events("U1@9=newer D5@9")
    lab.merge()
    second = replay_step(lab.pipeline, lab.table, replace(FULL, progress=first.progress))
    assert (second.done, lab.rows()[1]) == (False, "newer")
    third = replay_step(lab.pipeline, lab.table, replace(FULL, progress=second.progress))
    assert (third.done, lab.rows()) == (True, {1: "newer", 3: "c", 6: "I6@3"})


def test_swap_retries_after_a_concurrent_foreign_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path, batch=1000)
    first = replay_step(lab.pipeline, lab.table, FULL)
    commit, deleted_ids = Swap.commit, list[int]()

    def commit_after_foreign_write(self: RowDelta) -> object:
        if not deleted_ids:
            deleted_ids.append(1)
            foreign.delete_rows(lab.mirror, deleted_ids)
        return commit(self)

    monkeypatch.setattr(Swap, "commit", commit_after_foreign_write)
    second = replay_step(lab.pipeline, lab.table, replace(FULL, progress=first.progress))
    assert (second.done, second.rebuilt, lab.rows()) == (True, True, ROWS)
    assert clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60, dry_run=True).files == 0


def test_swap_with_lost_response_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make(tmp_path, batch=1000)
    first = replay_step(lab.pipeline, lab.table, FULL)
    commit = Swap.commit

    def commit_without_response(self: RowDelta) -> object:
        commit(self)
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(Swap, "commit", commit_without_response)
        with pytest.raises(CommitUnknown):
            replay_step(lab.pipeline, lab.table, replace(FULL, progress=first.progress))
    lab.commit_events("U1@9=newer")
    lab.merge()
    before = lab.mirror.metadata_location
    repeated = replay_step(lab.pipeline, lab.table, replace(FULL, progress=first.progress))
    assert (repeated.done, repeated.rebuilt, lab.mirror.metadata_location) == (True, True, before)


def delete_index(lab: Lab) -> None:
    shutil.rmtree(local_path(lab.mirror.properties[PROPERTY_INDEX_ROOT]).parent)


def remove_history(lab: Lab) -> None:
    foreign.append(lab.mirror, [(77, "x")])
    table = lab.mirror
    with table.transaction() as change:
        change.remove_properties("icemirror.cursor", "icemirror.index-root")
    table = lab.mirror
    head = table.metadata.current_snapshot_id
    with table.maintenance.expire_snapshots() as expiry:
        expiry.by_ids(
            [snapshot.snapshot_id for snapshot in table.metadata.snapshots if snapshot.snapshot_id != head]
        )


def damage_manifest_list(lab: Lab) -> None:
    head = lab.mirror.current_snapshot()
    assert head is not None
    local_path(head.manifest_list).write_bytes(b"Obj\x01 no more")


@pytest.mark.parametrize("damage", [delete_index, remove_history, damage_manifest_list])
def test_mirror_that_cannot_be_merged_can_be_rebuilt(tmp_path: Path, damage: Callable[[Lab], None]) -> None:
    lab = make(tmp_path)
    damage(lab)
    lab.commit_events("I7@7", "I8@8")
    run_rebuild(lab)
    lab.merge()
    assert lab.rows() == {**ROWS, 7: "I7@7", 8: "I8@8"}


def test_recreated_changelog_is_followed_after_a_rebuild(tmp_path: Path) -> None:
    lab = make(tmp_path, "on_truncate: stop")
    schema = lab.changelog.schema()
    lab.catalog.drop_table("lab.world_changelog")
    lab = replace(lab, changelog=lab.catalog.create_table("lab.world_changelog", schema))
    with pytest.raises(Invalid, match="has no events"):
        replay_step(lab.pipeline, lab.table, FULL)
    lab.commit_events("I1@1=anew")
    assert lab.try_merge().error is not None
    run_rebuild(lab)
    assert lab.rows() == {1: "anew"}
    assert str(lab.changelog.metadata.table_uuid) in lab.mirror.properties[PROPERTY_SOURCE]
    lab.commit_events("I2@2")
    lab.merge()
    assert lab.rows() == {1: "anew", 2: "I2@2"}


def exceed_idle_limit(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_MAX_IDLE_SECONDS", -1.0)


def delete_stage(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (lab.folder / "warehouse").rglob("*.stage.metadata.json"):
        path.unlink()


def change_mirror_properties(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab.mirror.transaction() as change:
        change.set_properties({"write.parquet.compression-codec": "gzip"})


@pytest.mark.parametrize("invalidate", [exceed_idle_limit, delete_stage, change_mirror_properties])
def test_invalid_stage_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invalidate: Callable[[Lab, pytest.MonkeyPatch], None]
) -> None:
    lab = make(tmp_path)
    first = replay_step(lab.pipeline, lab.table, FULL)
    second = replay_step(lab.pipeline, lab.table, replace(FULL, progress=first.progress))
    assert second.progress.events > first.progress.events
    with monkeypatch.context() as patch:
        invalidate(lab, patch)
        restarted = replay_step(lab.pipeline, lab.table, replace(FULL, progress=second.progress))
    assert restarted.progress.events == first.progress.events
    run_rebuild(lab, request=replace(FULL, progress=restarted.progress))
    assert lab.rows() == ROWS


def test_stage_of_another_request_is_not_reused(tmp_path: Path) -> None:
    lab = make(tmp_path)
    first = replay_step(lab.pipeline, lab.table, FULL)
    other = Replay("full-2", 0.0, full=True, progress=ReplayProgress(mark=first.progress.mark))
    assert replay_step(lab.pipeline, lab.table, other).progress.events == first.progress.events


@pytest.mark.parametrize("pattern", ["data/*.parquet", "*.segment.puffin"])
def test_stage_with_a_missing_file_is_not_swapped_in(tmp_path: Path, pattern: str) -> None:
    lab = make(tmp_path, batch=1000)
    tables = lab.folder / "warehouse" / "lab"
    known = set(tables.rglob(pattern))
    first = replay_step(lab.pipeline, lab.table, FULL)
    next(iter(set(tables.rglob(pattern)) - known)).unlink()
    before = lab.mirror.metadata_location
    with pytest.raises(Corrupt, match="a file of the rebuild is missing"):
        replay_step(lab.pipeline, lab.table, replace(FULL, progress=first.progress))
    assert lab.mirror.metadata_location == before


def test_table_not_created_by_icemirror_is_not_replaced(lab: Lab) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    with lab.mirror.transaction() as change:
        change.remove_properties("icemirror.source")
    with pytest.raises(Invalid, match="icemirror did not create it"):
        replay_step(lab.pipeline, lab.table, FULL)


def test_rebuild_without_a_mirror_does_nothing(lab: Lab) -> None:
    lab.commit_events("I1@1")
    assert replay_step(lab.pipeline, lab.table, FULL).done
    assert not lab.catalog.table_exists("lab.world")


def test_dry_run_reports_what_would_be_read(tmp_path: Path) -> None:
    lab = make(tmp_path)
    plan = plan_replay(lab.pipeline, lab.table, FULL)
    assert (plan.full, plan.snapshots, plan.files, plan.events) == (True, 3, 5, 11)
    assert plan.bytes > 0
    assert plan.slices > 2


def test_plan_refuses_a_rebuild_with_another_key_or_an_incompatible_column(
    tmp_path: Path,
) -> None:
    lab = make(tmp_path)
    reconfigured = lab.reconfigure("primary_keys: [name]")
    with pytest.raises(Invalid, match=r"Set primary_keys back, or drop the mirror"):
        plan_replay(reconfigured.pipeline, reconfigured.table, FULL)
    with lab.changelog.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("name", LongType())
    with pytest.raises(Invalid, match=r"name changed from string to long.* or drop the mirror, then"):
        plan_replay(lab.pipeline, lab.table, FULL)
    with lab.changelog.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("name", StringType())
    lab.catalog.drop_table(lab.mirror.name())
    assert plan_replay(lab.pipeline, lab.table, FULL).events > 0
    assert lab.try_merge().error is None


def test_rebuilt_rows_of_version_3_get_new_row_ids_once(tmp_path: Path) -> None:
    lab = make(tmp_path, "format_version: 3")
    before = lab.mirror.metadata.next_row_id  # type: ignore[union-attr]
    run_rebuild(lab)
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.first_row_id == before
    assert lab.mirror.metadata.next_row_id == before + head.added_rows  # type: ignore[union-attr, operator]
    assert read_root(lab.mirror.io, lab.mirror.properties[PROPERTY_INDEX_ROOT]).live_rows == len(ROWS)
    assert referenced_files(lab.mirror)
