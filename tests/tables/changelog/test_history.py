from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest
from pyiceberg.io import FileIO, InputFile
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import Corrupt, Invalid, Transient
from icemirror.tables.cursor import CursorSource
from spark_job.changelog import added_files as added_files_module
from spark_job.changelog.added_files import added_files
from spark_job.changelog.history import CursorExpired, History, history_since, whole_history
from spark_job.pyiceberg_private.manifest_files import (
    NewManifestList,
    read_manifest_entries,
    write_manifest_list,
)
from tests.lab.manifests import list_manifests
from tests.lab.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    commit_snapshot,
    data_files,
    manifest_of,
)
from tests.sim.engine.memory_io import MemoryIO
from tests.tables.changelog.histories import added, head_id


@dataclass(frozen=True)
class Metadata:
    snapshots: list[Snapshot]
    last_number: int = 5

    def next_sequence_number(self) -> int:
        return self.last_number + 1


class FakeIO(MemoryIO):
    """Every manifest list exists and is empty."""

    def new_input(self, location: str) -> InputFile:
        write_manifest_list(NewManifestList(self.new_output(location), 1, None, 1, "null"), [])
        return super().new_input(location)


@dataclass(frozen=True)
class FakeTable:
    """The attributes of a table that the history reads."""

    metadata: Metadata
    head: int | None
    io: FileIO = field(default_factory=FakeIO)

    def current_snapshot(self) -> Snapshot | None:
        return next(
            (snapshot for snapshot in self.metadata.snapshots if snapshot.snapshot_id == self.head), None
        )

    def specs(self) -> dict[int, PartitionSpec]:
        return {}


def snapshot(number: int, operation: str | None = "append", parent: int | None = -1) -> Snapshot:
    """Return snapshot `number`, a child of the one before by default."""
    fields = {
        "snapshot-id": number,
        "parent-snapshot-id": (number - 1 or None) if parent == -1 else parent,
        "sequence-number": number,
        "manifest-list": f"list-{number}",
        "summary": {"operation": operation} if operation else None,
    }
    return Snapshot.model_validate(fields)


def changelog(*snapshots: Snapshot, head: int | None = None) -> Table:
    last = snapshots[-1].snapshot_id if snapshots else None
    return cast(Table, FakeTable(Metadata(list(snapshots)), last if head is None else head))


def walk(table: Table, cursor: int | None, files_done: int | None = None) -> tuple[list[int], bool]:
    """Return the snapshots after the cursor, and whether the first covers expired ones."""
    if cursor is None:
        history: History | CursorExpired = whole_history(table, "raw.orders")
    else:
        source = CursorSource(uuid="u", snapshot_id=cursor, sequence_number=cursor, files_done=files_done)
        history = history_since(table, "raw.orders", source)
    if isinstance(history, CursorExpired):
        raise Invalid(history.message)
    return [snapshot.snapshot_id for snapshot in history.snapshots], history.covers_expired


FOUR = (snapshot(1), snapshot(2), snapshot(3), snapshot(4))


def test_history_without_a_cursor_is_whole_and_oldest_first() -> None:
    assert walk(changelog(*FOUR), None) == ([1, 2, 3, 4], False)


def test_history_starts_after_the_cursor() -> None:
    assert walk(changelog(*FOUR), 2) == ([3, 4], False)


def test_history_is_empty_at_the_head() -> None:
    assert walk(changelog(*FOUR), 4) == ([], False)


def test_empty_changelog_has_no_history() -> None:
    assert walk(changelog(), None) == ([], False)


def test_partly_merged_snapshot_is_returned_again() -> None:
    assert walk(changelog(*FOUR), 3, files_done=2) == ([3, 4], False)
    assert walk(changelog(*FOUR), 1, files_done=1) == ([1, 2, 3, 4], False)


def test_snapshots_of_other_branches_are_not_in_the_history() -> None:
    branch = snapshot(5, parent=2)
    assert walk(changelog(*FOUR, branch, head=4), 2) == ([3, 4], False)


def test_order_of_the_snapshot_list_does_not_matter() -> None:
    assert walk(changelog(*FOUR[::-1], head=4), 1) == ([2, 3, 4], False)


def test_expired_partly_merged_snapshot_is_refused() -> None:
    with pytest.raises(Invalid, match=r"raw\.orders: snapshot 2.*expired.*rebuild the mirror"):
        walk(changelog(*FOUR[2:]), 2, files_done=1)


def test_expired_cursor_with_later_expired_snapshots_is_refused() -> None:
    with pytest.raises(Invalid, match=r"raw\.orders: snapshot 1.*expired.*rebuild the mirror"):
        walk(changelog(*FOUR[2:]), 1)


def test_expired_cursor_is_accepted_if_the_next_snapshot_is_its_child() -> None:
    assert walk(changelog(*FOUR[2:]), 2) == ([3, 4], False)


def test_expired_cursor_without_remaining_files_is_refused() -> None:
    with pytest.raises(Invalid, match=r"snapshot 2.*expired"):
        walk(changelog(snapshot(3, parent=None), FOUR[3]), 2)


def test_stale_changelog_before_the_cursor_is_transient() -> None:
    """A catalog may answer from a cache or replica: mirror and changelog are valid."""
    stale = cast(Table, FakeTable(Metadata(list(FOUR[:3]), last_number=3), head=3))
    with pytest.raises(Transient, match=r"raw\.orders: .*before commit 4"):
        walk(stale, 4)


def test_changelog_rolled_back_before_the_cursor_is_refused() -> None:
    with pytest.raises(Invalid, match="rolled back"):
        walk(changelog(*FOUR, head=2), 4)


def test_cursor_on_another_branch_is_refused() -> None:
    with pytest.raises(Invalid, match="not in the history"):
        walk(changelog(*FOUR, snapshot(5, parent=2), head=5), 4)


def test_changelog_without_a_head_is_refused_after_a_merge() -> None:
    with pytest.raises(Invalid):
        walk(changelog(), 1)


@pytest.mark.parametrize("operation", ["overwrite", "delete"])
def test_snapshot_that_changes_rows_is_refused(operation: str) -> None:
    table = changelog(FOUR[0], FOUR[1], snapshot(3, operation), FOUR[3])
    for cursor in (None, 1, 2):
        with pytest.raises(
            Invalid, match=f"snapshot 3 is of kind {operation}.*Roll .* back to the snapshot 2 "
        ):
            walk(table, cursor)


def test_snapshot_that_changed_rows_before_the_cursor_is_ignored() -> None:
    assert walk(changelog(FOUR[0], snapshot(2, "overwrite"), FOUR[2], FOUR[3]), 3) == ([4], False)


def test_snapshot_of_unknown_kind_is_refused() -> None:
    with pytest.raises(Invalid, match="unknown"):
        walk(changelog(FOUR[0], snapshot(2, None)), 1)


def test_compaction_of_the_changelog_is_skipped() -> None:
    assert walk(changelog(FOUR[0], snapshot(2, "replace"), FOUR[2]), 1) == ([2, 3], False)


def test_first_snapshot_covers_all_expired_ones_before_it() -> None:
    assert walk(changelog(*FOUR[1:]), None) == ([2, 3, 4], True)


@pytest.mark.parametrize("operation", ["overwrite", "delete", "replace"])
def test_snapshot_that_covers_expired_ones_may_be_of_any_kind(operation: str) -> None:
    assert walk(changelog(snapshot(2, operation), FOUR[2]), None) == ([2, 3], True)


# The tests below use real manifests.


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.changelog", SCHEMA)


def test_each_append_returns_its_files_with_their_sizes(table: Table) -> None:
    first = commit_ids(table, 1, 2, 3)
    first_id = head_id(table)
    second = commit_ids(table, 4)
    second_id = head_id(table)
    listed = added_files(table.io, "raw.orders", whole_history(table, "raw.orders"))
    assert {key: [file.path for file in files] for key, files in listed.items()} == {
        first_id: [first],
        second_id: [second],
    }
    (file,) = listed[first_id]
    assert (file.events, file.snapshot_id, file.sequence_number) == (3, first_id, 1)
    assert file.bytes == len(table.io.new_input(first))


def test_empty_commit_returns_no_files(table: Table) -> None:
    commit_snapshot(table, "append", [], 11)
    assert added(table) == {11: []}


def test_files_of_a_commit_keep_the_order_of_its_manifests(table: Table) -> None:
    files = [data_files(table, number)[0] for number in range(4)]
    manifests = [manifest_of(table, 11, files[:3]), manifest_of(table, 11, files[3:])]
    commit_snapshot(table, "append", manifests, 11)
    assert added(table) == {11: [file.file_path for file in files]}


def test_file_order_does_not_depend_on_later_snapshots(table: Table) -> None:
    """`files_done` counts files in this order: another order would skip one file and merge another twice."""
    files = [data_files(table, number)[0] for number in range(3)]
    commit_snapshot(table, "append", [manifest_of(table, 11, [file]) for file in files], 11)
    before = added(table)[11]
    head = table.current_snapshot()
    assert head is not None
    manifests = list_manifests(table.io, head.manifest_list)
    commit_snapshot(table, "append", [manifest_of(table, 12, data_files(table, 9)), *manifests[::-1]], 12)
    assert added(table)[11] == before


def test_compaction_between_appends_adds_and_hides_no_files(table: Table) -> None:
    first = commit_ids(table, 1)
    first_id = head_id(table)
    second = commit_ids(table, 2)
    second_id = head_id(table)
    commit_snapshot(table, "replace", [manifest_of(table, 33, data_files(table, 1, 2))], 33)
    third = commit_ids(table, 3)
    third_id = head_id(table)
    assert added(table) == {first_id: [first], second_id: [second], third_id: [third]}


def test_cursor_before_a_compaction_gets_only_later_files(table: Table) -> None:
    commit_ids(table, 1)
    source = CursorSource(uuid="u", snapshot_id=head_id(table), sequence_number=1)
    commit_snapshot(table, "replace", [manifest_of(table, 33, data_files(table, 1))], 33)
    second = commit_ids(table, 2)
    assert added(table, source) == {head_id(table): [second]}


def test_files_of_a_merged_manifest_are_assigned_to_their_snapshots(catalog: UnsteadyCatalog) -> None:
    """Iceberg Java's default append rewrites the manifests of earlier commits into one."""
    properties = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    table = catalog.create_table("ns.merging", SCHEMA, properties=properties)
    expected: dict[int, list[str]] = {}
    for number in range(4):
        (file,) = data_files(table.refresh(), number)
        with table.transaction() as transaction, transaction.update_snapshot().merge_append() as append:
            append.append_data_file(file)
        expected[append.snapshot_id] = [file.file_path]
    head = table.refresh().current_snapshot()
    assert head is not None
    assert len(list_manifests(table.io, head.manifest_list)) < 4
    assert added(table) == expected


def test_rows_deleted_from_a_changelog_are_refused(table: Table) -> None:
    commit_ids(table, 1)
    deletes = manifest_of(table, 44, data_files(table, 1), ManifestContent.DELETES)
    commit_snapshot(table, "append", [deletes], 44)
    with pytest.raises(Invalid, match=r"snapshot 44 contains deletes.*Keep the mirror"):
        added(table)


def test_manifests_of_a_backlog_are_read_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slice of a backlog is planned again, and must not read the rest of the backlog each time."""
    read: list[str] = []

    def record_read(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
        read.append(manifest.manifest_path)
        return read_manifest_entries(io, manifest)

    monkeypatch.setattr(added_files_module, "read_manifest_entries", record_read)
    ids, paths = [], []
    for number in range(5):
        paths.append(commit_ids(table, number))
        ids.append(head_id(table))
    assert added(table) == {snapshot_id: [path] for snapshot_id, path in zip(ids, paths, strict=True)}
    for index in range(4):
        source = CursorSource(uuid="u", snapshot_id=ids[index], sequence_number=index + 1)
        assert list(added(table, source)) == ids[index + 1 :]
    assert len(read) == len(set(read)) == 5


def test_manifest_list_without_an_added_manifest_is_corrupt(table: Table) -> None:
    """The summary states how many files were added; without the check events would be lost silently."""
    commit_ids(table, 1)
    commit_ids(table, 2)
    head = table.current_snapshot()
    assert head is not None
    (newest, *_) = list_manifests(table.io, head.manifest_list)
    write_manifest_list(
        NewManifestList(table.io.new_output(head.manifest_list), head.snapshot_id, None, 2, "deflate"),
        [newest],
    )
    with pytest.raises(Corrupt, match="states that it added 1 files, but its manifests list 0"):
        added_files(table.io, "c", whole_history(table, "c"))
