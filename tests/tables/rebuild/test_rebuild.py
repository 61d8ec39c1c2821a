"""A full rebuild: built out of sight, swapped in by one commit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.types import LongType, StringType

from icemirror.errors import CommitUnknown, Corrupt, Invalid
from icemirror.protocol.replay import Replay, ReplayProgress, ReplayStep
from spark_job.commit.row_delta import RowDelta
from spark_job.commit.swap import Swap
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg import stage
from spark_job.iceberg.mirror import EPOCH, INDEX_ROOT, REPLAY, SOURCE
from spark_job.index.root import read_root
from spark_job.inspect.verify.verify_table import VerifyOptions, verify_table
from spark_job.maintenance.expire import expire
from spark_job.maintenance.orphans import clean_orphans
from spark_job.rebuild.replay import plan_replay, replay_step
from tests.lab import foreign
from tests.lab.lab import Lab, local_path
from tests.referenced import referenced_files

FULL = Replay("full-1", 0.0, full=True)


def rebuilt(lab: Lab, between: Callable[[], object] = lambda: None, asked: Replay = FULL) -> list[ReplayStep]:
    """Step by step until it is done; `between` happens after each step."""
    steps: list[ReplayStep] = []
    while not steps or not steps[-1].done:
        steps.append(replay_step(lab.pipeline, lab.table, asked))
        asked = replace(asked, progress=steps[-1].progress)
        between()
        assert len(steps) < 50
    return steps


def make(folder: Path, options: str = "", batch: int = 3) -> Lab:
    lab = Lab.make(folder, options=options, tail=f"batch_size: {batch}\n", engine=InProcessEngine(2))
    lab.commit_events("I1@1 I2@1 I3@1", "I4@1 I5@1")
    lab.commit_events("U1@2=b D2@2")
    lab.commit_events("U3@3=c U1@3=c", "D4@3 I6@3")
    lab.merge()
    return lab


ROWS = {1: "c", 3: "c", 5: "I5@1", 6: "I6@3"}
V2_AND_V3 = pytest.mark.parametrize("version", [2, 3])


@V2_AND_V3
@pytest.mark.parametrize("partition", ["", 'partition_by: ["bucket[2](id)"]'])
def test_readers_see_the_old_rows_until_one_commit_brings_the_new_ones(
    tmp_path: Path, version: int, partition: str
) -> None:
    lab = make(tmp_path, f"format_version: {version}\n{partition}")
    foreign.delete_rows(lab.mirror, [1, 6])
    others = {3: "c", 5: "I5@1"}
    before = len(lab.mirror.metadata.snapshots)
    seen: list[dict[object, object]] = []
    steps = rebuilt(lab, lambda: seen.append(lab.rows()))
    assert len(steps) > 2
    assert seen == [others] * (len(steps) - 1) + [ROWS]
    assert len(lab.mirror.metadata.snapshots) == before + 1
    assert (steps[-1].rebuilt, steps[-1].progress.events) == (True, 11)


@V2_AND_V3
def test_what_was_swapped_in_is_whole_and_is_merged_on(tmp_path: Path, version: int) -> None:
    lab = make(tmp_path, f"format_version: {version}")
    rebuilt(lab)
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary[REPLAY] == "full-1"
    totals = {name: head.summary[name] for name in ("total-records", "added-records", "total-data-files")}
    assert totals["total-records"] == totals["added-records"]
    assert int(head.summary["deleted-data-files"] or 0) > 0
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    lab.commit_events("U1@9=z D3@9 I2@9=back U5@0=late")
    assert lab.merge().slices[0].stale == 1
    assert lab.rows() == {1: "z", 2: "back", 5: "I5@1", 6: "I6@3"}
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal


def test_the_epoch_rises_and_the_cursor_is_that_of_the_stage(tmp_path: Path) -> None:
    lab = make(tmp_path)
    before = lab.mirror.current_snapshot()
    cursor = lab.merge().cursor
    (*_, last) = rebuilt(lab)
    after = lab.mirror.current_snapshot()
    assert before is not None
    assert after is not None
    assert before.summary is not None
    assert after.summary is not None
    assert int(after.summary[EPOCH] or 0) == int(before.summary[EPOCH] or 0) + 1
    assert last.position is not None
    assert last.position.cursor == cursor == lab.merge().cursor


def test_nothing_is_left_behind_and_expiry_finds_what_was_there_before(tmp_path: Path) -> None:
    lab = make(tmp_path)
    rebuilt(lab)
    assert {path for path in lab.files_on_disk() if "stage" in path} == set()
    found = clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60, dry_run=True)
    assert found.files == 0, found.paths
    with lab.mirror.transaction() as change:
        keep = {"history.expire.min-snapshots-to-keep": "1", "history.expire.max-snapshot-age-ms": "1"}
        change.set_properties(keep)
    expire(lab.mirror, "lab.world")
    assert lab.rows() == ROWS
    assert clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60).files == 0
    assert lab.rows() == ROWS


def test_commits_on_the_changelog_meanwhile_are_merged_into_the_stage_or_after_it(tmp_path: Path) -> None:
    lab = make(tmp_path)
    number = iter(range(100, 200))

    def meanwhile() -> None:
        at = next(number)
        lab.commit_events(f"I{at}@{at}")

    steps = rebuilt(lab, meanwhile)
    assert len(steps) < 20, "a busy changelog does not keep a rebuild from ending"
    lab.merge()
    assert len(lab.rows()) == len(ROWS) + len(steps)


def test_a_stage_that_the_mirror_has_overtaken_is_not_swapped_in(tmp_path: Path) -> None:
    lab = make(tmp_path, batch=1000)
    one = replay_step(lab.pipeline, lab.table, FULL)
    assert not one.done
    lab.commit_events("U1@9=newer D5@9")
    lab.merge()
    two = replay_step(lab.pipeline, lab.table, replace(FULL, progress=one.progress))
    assert (two.done, lab.rows()[1]) == (False, "newer")
    three = replay_step(lab.pipeline, lab.table, replace(FULL, progress=two.progress))
    assert (three.done, lab.rows()) == (True, {1: "newer", 3: "c", 6: "I6@3"})


def test_a_mirror_that_moves_before_the_swap_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path, batch=1000)
    one = replay_step(lab.pipeline, lab.table, FULL)
    commit, moved = Swap.commit, list[int]()

    def overtaken(self: RowDelta) -> object:
        if not moved:
            moved.append(1)
            foreign.delete_rows(lab.mirror, moved)
        return commit(self)

    monkeypatch.setattr(Swap, "commit", overtaken)
    two = replay_step(lab.pipeline, lab.table, replace(FULL, progress=one.progress))
    assert (two.done, two.rebuilt, lab.rows()) == (True, True, ROWS)
    assert clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60, dry_run=True).files == 0


def test_a_swap_whose_answer_was_lost_is_not_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path, batch=1000)
    one = replay_step(lab.pipeline, lab.table, FULL)
    commit = Swap.commit

    def unheard(self: RowDelta) -> object:
        commit(self)
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(Swap, "commit", unheard)
        with pytest.raises(CommitUnknown):
            replay_step(lab.pipeline, lab.table, replace(FULL, progress=one.progress))
    lab.commit_events("U1@9=newer")
    lab.merge()
    before = lab.mirror.metadata_location
    again = replay_step(lab.pipeline, lab.table, replace(FULL, progress=one.progress))
    assert (again.done, again.rebuilt, lab.mirror.metadata_location) == (True, True, before)


def lose_the_index(lab: Lab) -> None:
    shutil.rmtree(local_path(lab.mirror.properties[INDEX_ROOT]).parent)


def lose_the_history(lab: Lab) -> None:
    foreign.append(lab.mirror, [(77, "x")])
    table = lab.mirror
    with table.transaction() as change:
        change.remove_properties("icemirror.cursor", "icemirror.index-root")
    table = lab.mirror
    head = table.metadata.current_snapshot_id
    with table.maintenance.expire_snapshots() as expiry:
        expiry.by_ids([one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id != head])


def damage_the_manifests(lab: Lab) -> None:
    head = lab.mirror.current_snapshot()
    assert head is not None
    local_path(head.manifest_list).write_bytes(b"Obj\x01 no more")


@pytest.mark.parametrize("harm", [lose_the_index, lose_the_history, damage_the_manifests])
def test_a_mirror_that_cannot_be_merged_on_can_be_rebuilt(
    tmp_path: Path, harm: Callable[[Lab], None]
) -> None:
    lab = make(tmp_path)
    harm(lab)
    lab.commit_events("I7@7", "I8@8")
    rebuilt(lab)
    lab.merge()
    assert lab.rows() == {**ROWS, 7: "I7@7", 8: "I8@8"}


def test_a_changelog_that_was_made_anew_can_be_followed_after_a_rebuild(tmp_path: Path) -> None:
    lab = make(tmp_path, "on_truncate: stop")
    schema = lab.changelog.schema()
    lab.catalog.drop_table("lab.world_changelog")
    lab = replace(lab, changelog=lab.catalog.create_table("lab.world_changelog", schema))
    with pytest.raises(Invalid, match="has no events"):
        replay_step(lab.pipeline, lab.table, FULL)
    lab.commit_events("I1@1=anew")
    assert lab.try_merge().error is not None
    rebuilt(lab)
    assert lab.rows() == {1: "anew"}
    assert str(lab.changelog.metadata.table_uuid) in lab.mirror.properties[SOURCE]
    lab.commit_events("I2@2")
    lab.merge()
    assert lab.rows() == {1: "anew", 2: "I2@2"}


def rest_too_long(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_MAX_IDLE_SECONDS", -1.0)


def lose_the_stage(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (lab.folder / "warehouse").rglob("*.stage.metadata.json"):
        path.unlink()


def redefine_the_mirror(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab.mirror.transaction() as change:
        change.set_properties({"write.parquet.compression-codec": "gzip"})


@pytest.mark.parametrize("what", [rest_too_long, lose_the_stage, redefine_the_mirror])
def test_a_stage_that_cannot_be_trusted_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: Callable[[Lab, pytest.MonkeyPatch], None]
) -> None:
    lab = make(tmp_path)
    one = replay_step(lab.pipeline, lab.table, FULL)
    two = replay_step(lab.pipeline, lab.table, replace(FULL, progress=one.progress))
    assert two.progress.events > one.progress.events
    with monkeypatch.context() as patch:
        what(lab, patch)
        again = replay_step(lab.pipeline, lab.table, replace(FULL, progress=two.progress))
    assert again.progress.events == one.progress.events
    rebuilt(lab, asked=replace(FULL, progress=again.progress))
    assert lab.rows() == ROWS


def test_a_stage_of_another_request_is_not_taken_over(tmp_path: Path) -> None:
    lab = make(tmp_path)
    one = replay_step(lab.pipeline, lab.table, FULL)
    other = Replay("full-2", 0.0, full=True, progress=ReplayProgress(mark=one.progress.mark))
    assert replay_step(lab.pipeline, lab.table, other).progress.events == one.progress.events


@pytest.mark.parametrize("kind", ["data/*.parquet", "*.segment.puffin"])
def test_a_stage_of_which_somebody_took_a_file_is_not_swapped_in(tmp_path: Path, kind: str) -> None:
    lab = make(tmp_path, batch=1000)
    lake = lab.folder / "warehouse" / "lab"
    known = set(lake.rglob(kind))
    one = replay_step(lab.pipeline, lab.table, FULL)
    next(iter(set(lake.rglob(kind)) - known)).unlink()
    before = lab.mirror.metadata_location
    with pytest.raises(Corrupt, match="a file of the rebuild is missing"):
        replay_step(lab.pipeline, lab.table, replace(FULL, progress=one.progress))
    assert lab.mirror.metadata_location == before


def test_a_table_that_is_not_ours_is_not_replaced(lab: Lab) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    with lab.mirror.transaction() as change:
        change.remove_properties("icemirror.source")
    with pytest.raises(Invalid, match="icemirror did not create it"):
        replay_step(lab.pipeline, lab.table, FULL)


def test_without_a_mirror_there_is_nothing_to_rebuild(lab: Lab) -> None:
    lab.commit_events("I1@1")
    assert replay_step(lab.pipeline, lab.table, FULL).done
    assert not lab.catalog.table_exists("lab.world")


def test_a_dry_run_tells_what_would_be_read(tmp_path: Path) -> None:
    lab = make(tmp_path)
    plan = plan_replay(lab.pipeline, lab.table, FULL)
    assert (plan.full, plan.snapshots, plan.files, plan.events) == (True, 3, 5, 11)
    assert plan.bytes > 0
    assert plan.slices > 2


def test_a_rebuild_that_other_columns_or_another_key_forbid_is_refused_when_it_is_asked_for(
    tmp_path: Path,
) -> None:
    lab = make(tmp_path)
    other = lab.reconfigure("primary_keys: [name]")
    with pytest.raises(Invalid, match=r"Set primary_keys back, or drop the mirror"):
        plan_replay(other.pipeline, other.table, FULL)
    with lab.changelog.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("name", LongType())
    with pytest.raises(Invalid, match=r"name changed from string to long.* or drop the mirror, then"):
        plan_replay(lab.pipeline, lab.table, FULL)
    with lab.changelog.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("name", StringType())
    lab.catalog.drop_table(lab.mirror.name())
    assert plan_replay(lab.pipeline, lab.table, FULL).events > 0
    assert lab.try_merge().error is None


def test_rows_of_version_3_are_numbered_anew_and_only_once(tmp_path: Path) -> None:
    lab = make(tmp_path, "format_version: 3")
    before = lab.mirror.metadata.next_row_id  # type: ignore[union-attr]
    rebuilt(lab)
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.first_row_id == before
    assert lab.mirror.metadata.next_row_id == before + head.added_rows  # type: ignore[union-attr, operator]
    assert read_root(lab.mirror.io, lab.mirror.properties[INDEX_ROOT]).live_rows == len(ROWS)
    assert referenced_files(lab.mirror)
