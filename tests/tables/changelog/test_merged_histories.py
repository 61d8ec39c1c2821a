"""Whole merges of changelogs that were expired, compacted or merged concurrently."""

from __future__ import annotations

import json

import pytest

from icemirror.errors import Corrupt, Kind
from icemirror.step_results import Merged
from spark_job.iceberg.live_files import live_files
from spark_job.maintenance.foreign_files import commits_before_foreign_files
from tests.lab.foreign import append
from tests.lab.lab import Lab, local_path
from tests.lab.samples import commit_snapshot, expire_like_java, manifest_of

ONE_BY_ONE = "batch_size: 1\n"


def expire(lab: Lab, *snapshot_ids: int, java: bool) -> None:
    if java:
        expire_like_java(lab.changelog, *snapshot_ids)
        return
    for snapshot_id in snapshot_ids:
        lab.changelog.refresh().maintenance.expire_snapshots().by_id(snapshot_id).commit()


@pytest.mark.parametrize("java", [True, False], ids=["java", "pyiceberg"])
def test_first_merge_applies_events_of_expired_snapshots(lab: Lab, java: bool) -> None:
    expired = [lab.commit_events("I1@1 I2@1"), lab.commit_events("U1@2 I3@2")]
    lab.commit_events("D3@3 I4@3")
    lab.commit_events("U4@4")
    expire(lab, *expired, java=java)
    lab.merge()
    assert lab.rows() == {1: "U1@2", 2: "I2@1", 4: "U4@4"}


@pytest.mark.parametrize("java", [True, False], ids=["java", "pyiceberg"])
@pytest.mark.parametrize("extra_config", ["", ONE_BY_ONE], ids=["one slice", "many slices"])
def test_later_commit_wins_equal_sequences_after_both_expired(
    lab: Lab, java: bool, extra_config: str
) -> None:
    """A snapshot that covers expired ones is merged in slices; each starts where the one before ended."""
    expired = [
        lab.commit_events("I1@5=first"),
        lab.commit_events("U1@5=second", "U1@5=third"),
        lab.commit_events("U1@5=fourth"),
    ]
    lab.commit_events("I9@9", "U1@5=fifth")
    lab.commit_events("I8@8")
    expire(lab, *expired, java=java)
    lab = lab.reconfigure(extra_config=extra_config)
    lab.merge()
    assert lab.rows() == {1: "fifth", 8: "I8@8", 9: "I9@9"}


def test_partly_merged_snapshot_continues_after_its_parent_expired(lab: Lab) -> None:
    lab = lab.reconfigure(extra_config=ONE_BY_ONE)
    first = lab.commit_events("I1@5=a")
    lab.commit_events("U1@5=b0", "U1@5=b1", "U1@5=b2")
    for _ in range(2):
        assert isinstance(lab.pipeline.advance(lab.table), Merged)
    assert lab.rows() == {1: "b0"}
    expire(lab, first, java=True)
    assert [slice_.events for slice_ in lab.merge().slices] == [1, 1]
    assert lab.rows() == {1: "b2"}


def test_compaction_of_the_changelog_is_not_merged_again(lab: Lab) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    lab.commit_events("U1@2=two")
    lab.commit_events("I7@7")
    files = [task.file for task in lab.changelog.refresh().scan().plan_files()]
    commit_snapshot(lab.changelog, "replace", [manifest_of(lab.changelog, 4711, files)], 4711)
    lab.commit_events("I8@8")
    result = lab.merge()
    assert result.slices[0].events == 3
    assert lab.rows() == {1: "two", 7: "I7@7", 8: "I8@8"}


def test_many_slices_give_the_same_rows_as_one(lab: Lab) -> None:
    lab.commit_events("I1@1 I2@1", "U1@2=x", "D2@3")
    lab.commit_events("I2@4=again", "U1@1=late")
    small = lab.reconfigure(extra_config=ONE_BY_ONE)
    result = small.merge()
    assert len(result.slices) == 5
    assert small.rows() == {1: "x", 2: "again"}
    assert [slice_.stale for slice_ in result.slices] == [0, 0, 0, 0, 1]


def test_second_concurrent_first_merge_does_not_move_the_cursor_back(lab: Lab) -> None:
    """It planned before the mirror existed; meanwhile the other merge created and filled it."""
    lab = lab.reconfigure(extra_config=ONE_BY_ONE)
    lab.commit_events("I1@1")
    head = lab.commit_events("U1@2")
    other = lab.reconfigure(extra_config=ONE_BY_ONE)
    create = lab.catalog.create_table

    def create_after_the_other_merge(*arguments: object, **named: object) -> object:
        other.merge()
        return create(*arguments, **named)  # type: ignore[arg-type]

    lab.catalog.create_table = create_after_the_other_merge  # type: ignore[method-assign, assignment]
    lab.merge()
    cursors = [
        snapshot.summary["icemirror.cursor"] for snapshot in lab.mirror.snapshots() if snapshot.summary
    ]
    assert len(cursors) == 2, "each changelog snapshot is merged once"
    assert f'"snapshot_id":{head}' in str(cursors[-1])
    assert lab.rows() == {1: "U1@2"}


@pytest.mark.parametrize("kind", ["changelog", "mirror"])
def test_cycle_in_the_snapshot_history_is_refused(lab: Lab, kind: str) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    lab.commit_events("I2@2")
    append(lab.mirror, [(9, "foreign")])
    table = lab.changelog.refresh() if kind == "changelog" else lab.mirror
    path = local_path(table.metadata_location)
    metadata = json.loads(path.read_text())
    head = metadata["snapshots"][-1]
    head["parent-snapshot-id"] = head["snapshot-id"]
    path.write_text(json.dumps(metadata))
    error = lab.reconfigure().try_merge().error
    assert error is not None
    assert (error.kind, "contains a cycle" in error.message) == (Kind.CORRUPT, True)


def test_cycle_in_the_history_before_foreign_files_is_reported(lab: Lab) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    append(lab.mirror, [(9, "foreign")])
    mirror = lab.mirror
    live = live_files(mirror.io, mirror.current_snapshot())
    head = mirror.metadata.snapshots[-1]
    own_parent = head.model_copy(update={"parent_snapshot_id": head.snapshot_id})
    with pytest.raises(Corrupt, match="contains a cycle"):
        commits_before_foreign_files(mirror.metadata.model_copy(update={"snapshots": [own_parent]}), live)
