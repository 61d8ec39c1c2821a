"""What is left of a changelog's history once snapshots have expired."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from tests.unit.iceberg.histories import head_id, in_order
from tests.unit.iceberg.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    expire_like_java,
)


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


def test_files_of_expired_snapshots_come_in_the_order_in_which_they_were_committed(table: Table) -> None:
    """Of equal sequences the later commit wins, expired or not."""
    paths = []
    ids = []
    for number in range(4):
        paths.append(commit_ids(table, number))
        ids.append(head_id(table))
    expire_like_java(table, *ids[:3])
    assert in_order(table) == paths


@pytest.mark.parametrize("merging", ["true", "false"])
def test_files_from_before_the_first_number_are_not_lost(catalog: UnsteadyCatalog, merging: str) -> None:
    """A changelog of format v1 that was upgraded counts its commits from 1, whatever it had before."""
    properties = {
        "format-version": "1",
        "commit.manifest-merge.enabled": merging,
        "commit.manifest.min-count-to-merge": "2",
    }
    table = catalog.create_table("ns.old", SCHEMA, properties=properties)
    rows = pa.table({"id": [1], "name": ["n"]}).cast(schema_to_pyarrow(table.schema()))
    table.append(rows)
    table.append(rows)
    old = [one.snapshot_id for one in table.metadata.snapshots]
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.append(rows)
    expire_like_pyiceberg(table, *old)
    (left,) = table.metadata.snapshots
    assert (left.parent_snapshot_id, left.sequence_number) == (None, 1)
    assert len(in_order(table)) == 3
