"""The history of a changelog after snapshots have expired."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate

from icemirror.errors import Invalid
from icemirror.tables.cursor import CursorSource
from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
    read_manifest_entries,
    write_merged_manifest,
)
from spark_job.pyiceberg_private.v3_fields import delete_key
from tests.lab.manifests import list_manifests
from tests.lab.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    commit_snapshot,
    data_files,
    expire_like_java,
    manifest_of,
)
from tests.tables.changelog.histories import added, head_id, in_order


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.changelog", SCHEMA)


def expire_like_pyiceberg(table: Table, *snapshot_ids: int) -> None:
    for snapshot_id in snapshot_ids:
        table.refresh().maintenance.expire_snapshots().by_id(snapshot_id).commit()
    table.refresh()


@pytest.mark.parametrize("java", [True, False], ids=["java", "pyiceberg"])
def test_files_of_expired_snapshots_are_not_lost(table: Table, java: bool) -> None:
    paths = []
    expired = []
    for number in range(4):
        expired.append(head_id(table) if number else 0)
        paths.append(commit_ids(table, number))
    expire = expire_like_java if java else expire_like_pyiceberg
    expire(table, *expired[1:3])
    assert sorted(in_order(table)) == sorted(paths)


def test_files_of_expired_snapshots_keep_commit_order(table: Table) -> None:
    """For equal sequences the later commit wins, expired or not."""
    paths = []
    ids = []
    for number in range(4):
        paths.append(commit_ids(table, number))
        ids.append(head_id(table))
    expire_like_java(table, *ids[:3])
    assert in_order(table) == paths


@pytest.mark.parametrize("merging", ["true", "false"])
def test_files_from_before_an_upgrade_to_v2_are_not_lost(catalog: UnsteadyCatalog, merging: str) -> None:
    """A changelog that was upgraded from format v1 counts its commits from 1, regardless of earlier ones."""
    properties = {
        "format-version": "1",
        "commit.manifest-merge.enabled": merging,
        "commit.manifest.min-count-to-merge": "2",
    }
    table = catalog.create_table("ns.old", SCHEMA, properties=properties)
    rows = pa.table({"id": [1], "name": ["n"]}).cast(schema_to_pyarrow(table.schema()))
    table.append(rows)
    table.append(rows)
    old = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.append(rows)
    expire_like_pyiceberg(table, *old)
    (remaining,) = table.metadata.snapshots
    assert (remaining.parent_snapshot_id, remaining.sequence_number) == (None, 1)
    assert len(in_order(table)) == 3


@pytest.mark.parametrize("compacted", [False, True], ids=["appended", "compacted"])
def test_expired_cursor_without_a_parent_link_is_accepted_if_the_next_snapshot_lists_its_files(
    table: Table, compacted: bool
) -> None:
    commit_ids(table, 1)
    cursor = CursorSource(uuid="u", snapshot_id=head_id(table), sequence_number=1)
    if compacted:
        head = table.current_snapshot()
        assert head is not None
        (old,) = list_manifests(table.io, head.manifest_list)
        removed = {delete_key(entry.data_file) for entry in read_manifest_entries(table.io, old)}
        output = table.io.new_output(f"{table.location()}/metadata/rewritten.avro")
        new = NewManifest(old.content, table.spec(), table.schema(), output, 33, "deflate")
        rewritten = write_merged_manifest(new, table.io, [old], removed)
        commit_snapshot(table, "replace", [rewritten, manifest_of(table, 33, data_files(table, 1))], 33)
    path = commit_ids(table, 2)
    expire_like_pyiceberg(table, cursor.snapshot_id)
    assert added(table, cursor) == {head_id(table): [path]}


def test_rolled_back_and_expired_cursor_is_refused(table: Table) -> None:
    """The next sequence number alone does not prove that the commit descends from it."""
    commit_ids(table, 1)
    first = head_id(table)
    commit_ids(table, 2)
    cursor = CursorSource(uuid="u", snapshot_id=head_id(table), sequence_number=2)
    to_main = {"ref-name": "main", "snapshot-id": first, "type": "branch"}
    table.catalog.commit_table(table, (), (SetSnapshotRefUpdate.model_validate(to_main),))
    commit_ids(table, 3)
    expire_like_pyiceberg(table, first, cursor.snapshot_id)
    with pytest.raises(Invalid, match="rolled back"):
        added(table, cursor)
