from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ServiceUnavailableError
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from icemirror.errors import CommitUnknown, Conflict, UnverifiedConflict
from spark_job.commit.row_delta import RowDelta
from tests.lab.manifests import manifests, sequence_numbers
from tests.lab.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    data_files,
    delete_files,
    expire_like_java,
    ids_of,
    make_delta,
)

UNCLEAR: dict[str, Exception] = {
    "504": CommitStateUnknownException("504 Gateway Timeout"),
    "503": ServiceUnavailableError("503"),
    "time-out": TimeoutError("read timed out"),
    "connection": ConnectionResetError("reset by peer"),
}


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


def test_one_snapshot_holds_rows_deletes_summary_and_properties(table: Table) -> None:
    path = commit_ids(table, 1, 2, 3)
    before = table.metadata
    delta = make_delta(
        table,
        data_files(table, 4),
        delete_files(table, {path: [1]}),
        {"icemirror.cursor": "C", "icemirror.index-root": "R"},
        {"icemirror.cursor": "A", "icemirror.index-root": "R"},
    )
    delta.commit()
    after = table.refresh().metadata
    head = table.current_snapshot()
    assert head is not None
    assert len(after.snapshots) == len(before.snapshots) + 1
    assert len(after.metadata_log) == len(before.metadata_log) + 1, "one commit, one metadata version"
    assert (head.snapshot_id, head.parent_snapshot_id) == (delta.snapshot_id, before.current_snapshot_id)
    assert head.sequence_number == 2
    assert head.summary is not None
    assert head.summary["icemirror.cursor"] == "C"
    assert head.summary["icemirror.index-root"] == "R"
    assert (after.properties["icemirror.cursor"], after.properties["icemirror.index-root"]) == (
        "A",
        "R",
    )
    assert ids_of(table) == [1, 3, 4]


def test_first_snapshot_has_no_parent(table: Table) -> None:
    make_delta(table, data_files(table, 1)).commit()
    head = table.refresh().current_snapshot()
    assert head is not None
    assert (head.parent_snapshot_id, head.sequence_number) == (None, 1)
    assert ids_of(table) == [1]


def test_commit_without_files_moves_the_head(table: Table) -> None:
    commit_ids(table, 1)
    delta = make_delta(table, summary={"icemirror.cursor": "next"})
    delta.commit()
    head = table.refresh().current_snapshot()
    assert head is not None
    assert head.snapshot_id == delta.snapshot_id
    assert head.summary is not None
    assert (head.summary.operation, head.summary["icemirror.cursor"]) == (Operation.APPEND, "next")
    assert ids_of(table) == [1]


def test_snapshot_operation_is_overwrite_if_rows_were_removed(table: Table) -> None:
    path = commit_ids(table, 1, 2)
    first = table.current_snapshot()
    make_delta(table, data_files(table, 3), delete_files(table, {path: [0]})).commit()
    second = table.refresh().current_snapshot()
    assert first is not None
    assert second is not None
    assert first.summary is not None
    assert second.summary is not None
    assert (first.summary.operation, second.summary.operation) == (Operation.APPEND, Operation.OVERWRITE)


def test_summary_totals_continue_from_the_parent(table: Table) -> None:
    path = commit_ids(table, 1, 2)
    make_delta(table, data_files(table, 3), delete_files(table, {path: [0]})).commit()
    head = table.refresh().current_snapshot()
    assert head is not None
    assert head.summary is not None
    totals = {
        name: head.summary[name] for name in ("total-records", "total-data-files", "total-delete-files")
    }
    assert totals == {"total-records": "3", "total-data-files": "2", "total-delete-files": "1"}
    assert head.summary["total-position-deletes"] == "1"
    assert head.summary["added-position-deletes"] == "1"


def _commit_as_another_writer(catalog: UnsteadyCatalog) -> Callable[[], object]:
    """Commit as another writer when called."""
    return lambda: commit_ids(catalog.load_table("ns.t"), 99)


def test_head_that_moved_before_the_commit_is_a_conflict_and_changes_nothing(
    catalog: UnsteadyCatalog, table: Table
) -> None:
    commit_ids(table, 1)
    delta = make_delta(table, data_files(table, 2))
    _commit_as_another_writer(catalog)()
    location = catalog.load_table("ns.t").metadata_location
    with pytest.raises(Conflict, match="another writer committed first"):
        delta.commit()
    assert catalog.load_table("ns.t").metadata_location == location
    assert ids_of(table) == [1, 99]


def test_head_that_moves_during_the_commit_is_a_conflict_and_changes_nothing(
    catalog: UnsteadyCatalog, table: Table
) -> None:
    commit_ids(table, 1)
    delta = make_delta(table, data_files(table, 2))
    catalog.before_commit = _commit_as_another_writer(catalog)
    with pytest.raises(Conflict):
        delta.commit()
    assert ids_of(table) == [1, 99]


def test_first_commit_on_a_table_filled_by_another_writer_is_a_conflict(
    catalog: UnsteadyCatalog, table: Table
) -> None:
    delta = make_delta(table, data_files(table, 2))
    _commit_as_another_writer(catalog)()
    with pytest.raises(Conflict):
        delta.commit()
    assert ids_of(table) == [99]


def test_recreated_table_is_a_conflict(catalog: UnsteadyCatalog, table: Table) -> None:
    delta = make_delta(table, data_files(table, 2))
    catalog.drop_table("ns.t")
    catalog.create_table("ns.t", SCHEMA)
    with pytest.raises(Conflict):
        delta.commit()
    assert catalog.load_table("ns.t").current_snapshot() is None


def test_head_that_was_rolled_back_to_the_expected_one_is_accepted(table: Table) -> None:
    """After a rollback to the same snapshot the rows are the same, so the commit is right."""
    commit_ids(table, 1)
    stale = table.catalog.load_table("ns.t")
    commit_ids(table, 2)
    head = stale.current_snapshot()
    assert head is not None
    table.refresh().manage_snapshots().rollback_to_snapshot(head.snapshot_id).commit()
    fresh = table.catalog.load_table("ns.t")
    RowDelta(fresh, head, fresh.metadata.new_snapshot_id(), data_files(fresh, 3), [], {}, {"p": "1"}).commit()
    assert ids_of(table) == [1, 3]


def test_pyiceberg_does_not_retry_by_itself(catalog: UnsteadyCatalog, table: Table) -> None:
    """A retry on a newer head would commit what was located on an older one."""
    delta = make_delta(table, data_files(table, 1))
    catalog.recover()
    catalog.refusal = CommitFailedException("409")
    with pytest.raises(Conflict):
        delta.commit()
    assert catalog.commits == 1


@pytest.mark.parametrize("name", [*UNCLEAR, "409"])
def test_commit_that_succeeded_despite_an_error_response_is_returned(
    catalog: UnsteadyCatalog, table: Table, name: str
) -> None:
    delta = make_delta(table, data_files(table, 1, 2))
    catalog.answer = {**UNCLEAR, "409": CommitFailedException("409, to the transport's own retry")}[name]
    delta.commit()
    catalog.recover()
    assert ids_of(table) == [1, 2]


def test_refused_commit_is_a_conflict(catalog: UnsteadyCatalog, table: Table) -> None:
    delta = make_delta(table, data_files(table, 1))
    catalog.refusal = CommitFailedException("409")
    with pytest.raises(Conflict, match="409"):
        delta.commit()
    assert table.refresh().current_snapshot() is None


def test_refusal_without_a_visible_cause_is_an_unverified_conflict(
    catalog: UnsteadyCatalog, table: Table
) -> None:
    """The HTTP client's second request is refused, and a cache returns the table as it was."""
    delta = make_delta(table, data_files(table, 1))
    catalog.answer, catalog.stale = CommitFailedException("409"), catalog.load_table("ns.t")
    with pytest.raises(UnverifiedConflict, match="409"):
        delta.commit()
    catalog.recover()
    assert ids_of(table) == [1]


def test_refusal_caused_by_a_visible_commit_is_a_plain_conflict(
    catalog: UnsteadyCatalog, table: Table
) -> None:
    delta = make_delta(table, data_files(table, 1))
    other = catalog.load_table("ns.t")
    catalog.before_commit = lambda: commit_ids(other, 2)
    with pytest.raises(Conflict) as raised:
        delta.commit()
    assert type(raised.value) is Conflict
    assert ids_of(table) == [2]


@pytest.mark.parametrize("name", UNCLEAR)
@pytest.mark.parametrize("committed", [True, False])
def test_unclear_response_without_a_readable_table_is_unknown(
    catalog: UnsteadyCatalog, table: Table, name: str, committed: bool
) -> None:
    delta = make_delta(table, data_files(table, 1))
    catalog.blindness = ConnectionError("no route")
    catalog.answer, catalog.refusal = (UNCLEAR[name], None) if committed else (None, UNCLEAR[name])
    with pytest.raises(CommitUnknown, match=f"{delta.snapshot_id} may have been committed.*no route"):
        delta.commit()
    catalog.recover()
    assert ids_of(table) == ([1] if committed else [])


def test_refusal_without_a_readable_table_is_unknown(catalog: UnsteadyCatalog, table: Table) -> None:
    """The HTTP client's retry of a commit that succeeded is refused, too: 409 proves nothing."""
    delta = make_delta(table, data_files(table, 1))
    catalog.answer, catalog.blindness = CommitFailedException("409"), ConnectionError("no route")
    with pytest.raises(CommitUnknown):
        delta.commit()
    catalog.recover()
    assert ids_of(table) == [1]


@pytest.mark.parametrize("committed", [True, False])
def test_refusal_with_hidden_history_is_unknown(
    catalog: UnsteadyCatalog, table: Table, committed: bool
) -> None:
    """The attempt may have succeeded and its snapshot expired; or the catalog returns only the newest one."""
    delta = make_delta(table, data_files(table, 1))
    other = catalog.load_table(table.name())
    if committed:
        delta.commit()
    else:
        commit_ids(other, 2)
    expired = other.refresh().metadata.snapshots[-1].snapshot_id
    commit_ids(other, 3)
    expire_like_java(other, expired)
    with pytest.raises(CommitUnknown, match="no longer lists"):
        delta.commit()
    assert ids_of(other) == ([1, 3] if committed else [2, 3])


@pytest.mark.parametrize("name", UNCLEAR)
def test_unclear_response_without_the_snapshot_is_unknown(
    catalog: UnsteadyCatalog, table: Table, name: str
) -> None:
    """The catalog may still be committing when the table is loaded."""
    delta = make_delta(table, data_files(table, 1))
    catalog.refusal = UNCLEAR[name]
    with pytest.raises(CommitUnknown):
        delta.commit()


def test_every_metadata_file_is_recorded_for_clean_up(catalog: UnsteadyCatalog, table: Table) -> None:
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    path = commit_ids(table, 1, 2)
    before = {file.name for file in folder.iterdir()}
    delta = make_delta(table, data_files(table, 3), delete_files(table, {path: [0]}))
    catalog.refusal = CommitFailedException("409")
    with pytest.raises(Conflict):
        delta.commit()
    new = {file.name for file in folder.iterdir()} - before
    assert new == {Path(path).name for path in delta.metadata_paths}
    assert len(new) == 3  # two manifests and their list


@pytest.fixture
def merging(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA, properties={"commit.manifest.min-count-to-merge": "3"})


def test_small_manifests_are_merged_and_entries_keep_their_sequence_numbers(merging: Table) -> None:
    expected: dict[str, tuple[int | None, int | None, int | None]] = {}
    for number in range(10):
        path = commit_ids(merging, number)
        head = merging.current_snapshot()
        assert head is not None
        expected[path] = (head.snapshot_id, number + 1, number + 1)
        assert len(manifests(merging)) <= 4
    assert sequence_numbers(merging) == expected
    assert ids_of(merging) == list(range(10))


def test_data_and_delete_manifests_are_merged_separately(merging: Table) -> None:
    paths = [commit_ids(merging, number, number + 100) for number in range(6)]
    for path in paths:
        make_delta(merging, deletes=delete_files(merging.refresh(), {path: [1]})).commit()
    merged = manifests(merging)
    for manifest in merged:
        kinds = {
            entry.data_file.content.name == "DATA" for entry in manifest.fetch_manifest_entry(merging.io)
        }
        assert kinds == {manifest.content is ManifestContent.DATA}
    assert len(merged) <= 8
    assert ids_of(merging) == list(range(6))


def test_delete_in_a_merged_manifest_does_not_apply_to_later_rows(merging: Table) -> None:
    """Sequence numbers decide which deletes apply; merging must not renew them."""
    path = commit_ids(merging, 1, 2)
    make_delta(merging, deletes=delete_files(merging, {path: [0]})).commit()
    for number in range(3, 12):
        commit_ids(merging, number)
    make_delta(merging.refresh(), data_files(merging, 1)).commit()
    assert ids_of(merging) == [1, 2, *range(3, 12)]
    (deleted,) = [manifest for manifest in manifests(merging) if manifest.content is ManifestContent.DELETES]
    (entry,) = deleted.fetch_manifest_entry(merging.io)
    assert entry.sequence_number == 2


def test_large_manifests_are_not_rewritten(catalog: UnsteadyCatalog) -> None:
    properties = {"commit.manifest.min-count-to-merge": "2", "commit.manifest.target-size-bytes": "10"}
    table = catalog.create_table("ns.t", SCHEMA, properties=properties)
    for number in range(5):
        commit_ids(table, number)
    assert len(manifests(table)) == 5


def test_manifests_without_live_entries_are_dropped(table: Table) -> None:
    commit_ids(table, 1)
    commit_ids(table, 2)
    table.delete("id = 1")
    commit_ids(table, 3)
    for manifest in manifests(table):
        assert manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    assert ids_of(table) == [2, 3]


def test_manifest_merge_does_not_restore_entries_of_removed_files(merging: Table) -> None:
    for number in range(4):
        commit_ids(merging, number)
    merging.delete("id = 2")
    for number in range(10, 16):
        commit_ids(merging, number)
    statuses = {
        entry.status
        for manifest in manifests(merging)
        for entry in manifest.fetch_manifest_entry(merging.io, False)
    }
    assert ids_of(merging) == [0, 1, 3, *range(10, 16)]
    assert ManifestEntryStatus.EXISTING in statuses


def test_files_of_different_specs_have_separate_manifests(table: Table) -> None:
    old = commit_ids(table, 1, 2)
    with table.update_spec() as update:
        update.add_identity("name")
    table.refresh()
    make_delta(table, data_files(table, 3, 4), delete_files(table, {old: [0]})).commit()
    specs = {(manifest.content, manifest.partition_spec_id) for manifest in manifests(table)}
    assert specs == {
        (ManifestContent.DATA, 0),
        (ManifestContent.DATA, 1),
        (ManifestContent.DELETES, 0),
    }
    assert ids_of(table) == [2, 3, 4]
