"""Commits that PyIceberg rejects locally, before anything is sent, are conflicts."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from icemirror.errors import CommitUnknown, Conflict
from tests.lab.samples import SCHEMA, UnsteadyCatalog, commit_ids, data_files, ids_of, make_delta


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


def _commit_on_a_branch(table: Table) -> None:
    """Commit as another writer: keep `main`, but use the next sequence number."""
    table.refresh()
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    rows = pa.table({"id": [99], "name": ["n99"]}).cast(schema_to_pyarrow(table.schema()))
    table.append(rows, branch="audit")


def test_sequence_number_used_by_another_branch_is_a_conflict(catalog: UnsteadyCatalog, table: Table) -> None:
    commit_ids(table, 1)
    delta = make_delta(table, data_files(table, 2))
    _commit_on_a_branch(catalog.load_table("ns.t"))
    with pytest.raises(Conflict, match="sequence number"):
        delta.commit()
    assert ids_of(table) == [1]
    make_delta(table, data_files(table, 2)).commit()
    assert ids_of(table) == [1, 2]


def test_snapshot_expired_first_by_another_writer_is_a_conflict(
    catalog: UnsteadyCatalog, table: Table
) -> None:
    commit_ids(table, 1)
    first = table.current_snapshot()
    assert first is not None
    commit_ids(table, 2)
    delta = replace(make_delta(table, data_files(table, 3)), expired_snapshot_ids=[first.snapshot_id])
    catalog.load_table("ns.t").maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    with pytest.raises(Conflict, match="does not exist"):
        delta.commit()
    assert ids_of(table) == [1, 2]


def test_invalid_response_of_the_catalog_leaves_the_outcome_unknown(
    catalog: UnsteadyCatalog, table: Table
) -> None:
    """Not every ValueError means that nothing was sent."""
    delta = make_delta(table, data_files(table, 1))
    catalog.refusal = ValueError("half an answer")
    with pytest.raises(CommitUnknown):
        delta.commit()
