from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from icemirror.errors import Conflict, Corrupt, Kind
from icemirror.tables.cursor import Cursor
from spark_job.commit.commit_slice import UncommittedSlice, commit_slice
from spark_job.commit.next_root import root_after_slice
from spark_job.engine.engine import InProcessEngine
from spark_job.engine.work import Result, Work
from spark_job.iceberg.cursor_property import CursorProperty
from spark_job.iceberg.mirror import Mirror
from spark_job.index.apply_index_merge import MergedIndex
from spark_job.index.root import IndexedFile, Root, read_root
from spark_job.merge.shard_result import ShardResult, split_outcomes
from spark_job.plan.slices import Slice
from tests.lab.lab import Lab


@dataclass(frozen=True)
class Tampering(InProcessEngine):
    """An engine whose results a test changes before they are committed."""

    change: Callable[[list[Any]], list[Any]] = list

    def run(self, work: Work[Result]) -> list[Result]:
        """Merge the slice, and change the results."""
        return self.change(super().run(work))


def next_slice(lab: Lab) -> tuple[Mirror, Slice]:
    """Return the mirror and the next slice of the plan."""
    table_plan = lab.pipeline.planner.require_plan(lab.table)
    assert table_plan.mirror is not None
    return table_plan.mirror, table_plan.slices[0]


def location(lab: Lab) -> str:
    return str(lab.folder / "warehouse" / "index")


def commit(lab: Lab, mirror: Mirror, slice_: Slice, shards: list[ShardResult]) -> None:
    merged = MergedIndex(mirror.root.segments if mirror.root else (), next_sorted_run=9)
    commit_slice(UncommittedSlice(mirror, slice_, shards, merged), "run", location(lab))


@pytest.fixture(params=[2, 3], ids=["v2", "v3"])
def started(tmp_path: Path, request: pytest.FixtureRequest) -> Lab:
    """A mirror of three rows, and an unmerged update."""
    lab = Lab.make(tmp_path, options=f"format_version: {request.param}")
    lab.commit_events("I1@1 I2@1 I3@1")
    lab.merge()
    lab.commit_events("U2@5")
    return lab


def test_summary_and_properties_hold_cursor_and_index_root(lab: Lab) -> None:
    first = lab.commit_events("I1@1 I2@1")
    lab.merge()
    second = lab.commit_events("U1@2 D2@2 D9@2 U3@2")
    lab.merge()
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    summary, properties = head.summary.additional_properties, lab.mirror.metadata.properties
    own = {name: value for name, value in summary.items() if name.startswith("icemirror.")}
    cursor = Cursor.model_validate_json(own["icemirror.cursor"])
    assert (cursor.source.snapshot_id, cursor.source.files_done) == (second, None)
    assert cursor.source.uuid == str(lab.changelog.metadata.table_uuid)
    counts = {name: own[f"icemirror.{name}"] for name in ("inserted", "updated", "deleted", "stale")}
    assert counts == {"inserted": "1", "updated": "1", "deleted": "1", "stale": "0"}
    assert (own["icemirror.version"], own["icemirror.epoch"], own["icemirror.live-rows"]) == (
        "1",
        "2",
        "2",
    )
    assert own["icemirror.run-id"] == "test"
    anchor = CursorProperty.model_validate_json(properties["icemirror.cursor"])
    assert anchor == CursorProperty(
        snapshot_id=head.snapshot_id,
        sequence_number=head.sequence_number or 0,
        epoch=2,
        cursor=cursor,
        last_file_change_number=head.sequence_number,
    )
    assert properties["icemirror.index-root"] == own["icemirror.index-root"]
    root = read_root(lab.mirror.io, own["icemirror.index-root"])
    assert (root.snapshot_id, root.epoch, root.live_rows) == (head.snapshot_id, 2, 2)
    assert first != second


def test_index_is_stored_below_the_table_location(started: Lab) -> None:
    started.merge()
    head = started.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    root = head.summary["icemirror.index-root"]
    parent = started.mirror.location().rpartition("/")[0]
    assert root is not None
    assert root.startswith(f"{parent}/_icemirror_index/{started.mirror.metadata.table_uuid}/")


def test_every_written_file_is_referenced_by_table_or_index(started: Lab) -> None:
    started.merge()
    root = read_root(started.mirror.io, started.mirror.metadata.properties["icemirror.index-root"])
    for segment in root.segments:
        assert started.mirror.io.new_input(segment.path).exists()
    indexed = {file.path for file in root.files}
    live = {task.file.file_path for task in started.mirror.scan().plan_files()}
    assert live <= indexed


def _with_files(mirror: Mirror, files: list[IndexedFile]) -> Mirror:
    assert mirror.root is not None
    return replace(mirror, root=mirror.root.model_copy(update={"files": tuple(files)}))


PLANTED: dict[str, Callable[[list[IndexedFile]], list[IndexedFile]]] = {
    "a row too few": lambda files: [
        files[0].model_copy(update={"live_rows": files[0].live_rows - 1}),
        *files[1:],
    ],
    "a row too many": lambda files: [
        files[0].model_copy(update={"live_rows": files[0].live_rows + 1}),
        *files[1:],
    ],
    "a file too few": lambda files: files[1:],
    "a file too many": lambda files: [*files, IndexedFile(path="nowhere", rows=1, live_rows=1)],
    "another file": lambda files: [files[0].model_copy(update={"path": "elsewhere"}), *files[1:]],
}


@pytest.mark.parametrize("name", PLANTED)
def test_index_with_other_counts_than_the_table_commits_nothing(started: Lab, name: str) -> None:
    mirror, slice_ = next_slice(started)
    assert mirror.root is not None
    wrong = _with_files(mirror, PLANTED[name](list(mirror.root.files)))
    location = started.mirror.metadata_location
    with pytest.raises(Corrupt, match="nothing was committed"):
        commit(started, wrong, slice_, [])
    assert started.mirror.metadata_location == location


def test_check_passes_without_a_planted_mistake(started: Lab) -> None:
    mirror, slice_ = next_slice(started)
    commit(started, mirror, slice_, [])


def _removed(shard: ShardResult, file: list[int], pos: list[int]) -> ShardResult:
    return replace(shard, removed_file=np.array(file, np.int32), removed_pos=np.array(pos, np.int64))


def test_two_keys_located_at_one_row_commit_nothing(started: Lab) -> None:
    started.commit_events("U3@5")
    before = started.files_on_disk()
    bad = started.reconfigure(engine=Tampering(change=lambda shards: [_removed(shards[0], [0, 0], [1, 1])]))
    result = bad.try_merge()
    assert result.error is not None
    assert (result.error.kind, "two keys were located at one row" in result.error.message) == (
        Kind.CORRUPT,
        True,
    )
    assert started.rows() == {1: "I1@1", 2: "I2@1", 3: "I3@1"}
    assert started.files_on_disk() == before


MISCOUNTED: dict[str, Callable[[ShardResult], ShardResult]] = {
    # The old row is removed, the new one is in no file of the table: a row is lost.
    "a data file too few": lambda shard: replace(shard, data_files=()),
    # The new row is written, the old one stays: a key with two rows.
    "a removed row too few": lambda shard: _removed(shard, [], []),
    # The new row is in the table but not in the index: the next update would add a second one.
    "an entry too few": lambda shard: replace(
        shard, segment=shard.segment and shard.segment.model_copy(update={"entries": 0})
    ),
    "no segment": lambda shard: replace(shard, segment=None),
}


@pytest.mark.parametrize("name", MISCOUNTED)
def test_shard_with_inconsistent_counts_commits_nothing(started: Lab, name: str) -> None:
    result = started.reconfigure(
        engine=Tampering(change=lambda shards: [MISCOUNTED[name](shard) for shard in shards])
    ).try_merge()
    assert result.error is not None
    assert result.error.kind is Kind.CORRUPT
    assert started.rows() == {1: "I1@1", 2: "I2@1", 3: "I3@1"}


def run_shards(lab: Lab, mirror: Mirror, slice_: Slice) -> list[ShardResult]:
    """Run the shards of the next slice; nothing is committed."""
    table_plan = lab.pipeline.planner.require_plan(lab.table)
    work = lab.pipeline.prepare_slice_work(table_plan, mirror, slice_, location(lab))
    return split_outcomes(lab.pipeline.engine.run(work))[0]


def test_root_updates_counts_and_lists_new_segments_first(started: Lab) -> None:
    mirror, slice_ = next_slice(started)
    shards = run_shards(started, mirror, slice_)
    assert mirror.root is not None
    (old,) = mirror.root.files
    merged = MergedIndex(mirror.root.segments, next_sorted_run=9)
    root = root_after_slice(mirror, shards, merged, {old.path: np.array([1])}, set(), 77)
    assert (root.snapshot_id, root.epoch) == (77, 2)
    assert [segment.path for segment in root.segments] == [
        shards[0].segment.path if shards[0].segment else "",
        mirror.root.segments[0].path,
    ]
    assert root.segments[0].files == (1,)
    assert root.segments[1].files == (0,)
    assert (root.segments[0].sorted_run, root.next_sorted_run) == (9, 10)
    assert [(file.rows, file.live_rows) for file in root.files] == [(3, 2), (1, 1)]
    assert isinstance(root, Root)


def test_slice_without_files_advances_cursor_and_epoch(lab: Lab) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    empty = lab.commit()
    result = lab.merge()
    assert result.cursor is not None
    assert result.cursor.source.snapshot_id == empty
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary["icemirror.epoch"] == "2"
    assert (lab.rows(), result.live_rows) == ({1: "I1@1"}, 1)


def _commit_with(monkeypatch: pytest.MonkeyPatch, lab: Lab, act: Callable[..., Any]) -> None:
    """Replace the catalog's commit by `act(real, *arguments)`."""
    real = lab.catalog.commit_table
    monkeypatch.setattr(lab.catalog, "commit_table", lambda *arguments: act(real, *arguments))


def _refuse(error: Exception) -> Callable[..., Any]:
    def act(*_: Any) -> None:
        raise error

    return act


def test_conflict_deletes_only_the_files_of_the_attempt(
    started: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = started.reconfigure()
    mirror, slice_ = next_slice(started)
    before = started.files_on_disk()
    shards = run_shards(started, mirror, slice_)
    own_files = started.files_on_disk() - before
    other_files: set[str] = set()

    def act(real: Callable[..., Any], *arguments: Any) -> Any:
        monkeypatch.undo()
        own_files.update(started.files_on_disk() - before)
        other.merge()
        other_files.update(started.files_on_disk() - before - own_files)
        return real(*arguments)

    _commit_with(monkeypatch, started, act)
    with pytest.raises(Conflict):
        commit(started, mirror, slice_, shards)
    assert own_files
    assert started.files_on_disk() == before | other_files
    assert started.rows() == {1: "I1@1", 2: "U2@5", 3: "I3@1"}


def test_unverified_conflict_deletes_no_file(started: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The HTTP client's retry was refused; its first request had succeeded, and a cache hides that."""
    real_load = started.catalog.load_table
    stale: list[Any] = []

    def act(real: Callable[..., Any], *arguments: Any) -> Any:
        before = real_load(arguments[0].name())
        real(*arguments)
        stale.append(before)
        raise CommitFailedException("409")

    monkeypatch.setattr(started.catalog, "load_table", lambda name: stale.pop() if stale else real_load(name))
    _commit_with(monkeypatch, started, act)
    assert started.merge().outcome == "up-to-date"
    assert started.rows() == {1: "I1@1", 2: "U2@5", 3: "I3@1"}


def test_conflict_is_planned_again_from_the_new_head(started: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another merge commits the same slice first: this one has nothing left to do."""
    other = started.reconfigure()
    conflicts: list[bool] = []

    def act(real: Callable[..., Any], *arguments: Any) -> Any:
        if not conflicts:
            conflicts.append(True)
            other.merge()
        return real(*arguments)

    _commit_with(monkeypatch, started, act)
    result = started.merge()
    assert (result.outcome, conflicts) == ("up-to-date", [True])
    assert started.rows() == {1: "I1@1", 2: "U2@5", 3: "I3@1"}
    epochs = [
        snapshot.summary["icemirror.epoch"] for snapshot in started.mirror.snapshots() if snapshot.summary
    ]
    assert epochs == ["1", "2"]


def test_unknown_outcome_deletes_no_file(started: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    real_load = started.catalog.load_table
    committed: list[bool] = []

    def load(name: Any) -> Any:
        if committed:
            raise ConnectionError("no route")
        return real_load(name)

    def act(real: Callable[..., Any], *arguments: Any) -> Any:
        real(*arguments)
        committed.append(True)
        raise CommitStateUnknownException("504")

    monkeypatch.setattr(started.catalog, "load_table", load)
    _commit_with(monkeypatch, started, act)
    result = started.try_merge()
    assert result.error is not None
    assert result.error.kind is Kind.COMMIT_UNKNOWN
    committed.clear()
    assert started.rows() == {1: "I1@1", 2: "U2@5", 3: "I3@1"}


def test_refusal_without_a_readable_table_deletes_no_file(
    started: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The HTTP client's retry was refused; its first request had succeeded."""
    real_load = started.catalog.load_table
    committed: list[bool] = []

    def load(name: Any) -> Any:
        if committed:
            raise ConnectionError("no route")
        return real_load(name)

    def act(real: Callable[..., Any], *arguments: Any) -> Any:
        real(*arguments)
        committed.append(True)
        raise CommitFailedException("409")

    monkeypatch.setattr(started.catalog, "load_table", load)
    _commit_with(monkeypatch, started, act)
    result = started.try_merge()
    committed.clear()
    assert started.rows() == {1: "I1@1", 2: "U2@5", 3: "I3@1"}
    assert result.error is not None
    assert result.error.kind is Kind.COMMIT_UNKNOWN


@pytest.mark.parametrize("error", [CommitStateUnknownException("504"), TimeoutError("slow")], ids=str)
def test_commit_that_succeeds_late_still_has_its_files(
    started: Lab, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The catalog was slow: an immediate check proves nothing, so no file may be deleted."""
    delayed: list[Callable[[], object]] = []

    def act(real: Callable[..., Any], *arguments: Any) -> Any:
        delayed.append(lambda: real(*arguments))
        raise error

    _commit_with(monkeypatch, started, act)
    result = started.try_merge()
    assert result.error is not None
    delayed[0]()
    monkeypatch.undo()
    assert started.rows() == {1: "I1@1", 2: "U2@5", 3: "I3@1"}
    assert started.merge().outcome == "up-to-date"


@pytest.mark.parametrize(
    "step", ["commit_slice.write_deletes", "commit_snapshot.write_root", "commit_slice.live_files"]
)
def test_failure_before_the_commit_leaves_no_file_and_a_retry_succeeds(
    started: Lab, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = started.files_on_disk()
    with monkeypatch.context() as patched:
        patched.setattr(f"spark_job.commit.{step}", _refuse(OSError(errno.ENOSPC, "No space left on device")))
        result = started.try_merge()
    assert result.error is not None
    assert (result.error.kind, "Free some space" in result.error.message) == (Kind.TRANSIENT, True)
    assert started.files_on_disk() == before
    started.merge()
    assert started.rows() == {1: "I1@1", 2: "U2@5", 3: "I3@1"}
