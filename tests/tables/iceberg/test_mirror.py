from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate

from icemirror.errors import Corrupt, IcemirrorError, Invalid
from icemirror.tables.cursor import Cursor, CursorSource
from spark_job.iceberg import property_names
from spark_job.iceberg.cursor_property import commit_properties
from spark_job.iceberg.mirror import read_mirror
from spark_job.index.root import IndexedFile, Root, write_root
from tests.lab.manifests import list_manifests
from tests.lab.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    commit_snapshot,
    data_files,
    make_delta,
)

CURSOR = Cursor(sources=(CursorSource(uuid="u", snapshot_id=5, sequence_number=6, files_done=None),))


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    properties = {"icemirror.source": "raw.x uuid", "icemirror.field-map": '{"4": 1, "7": 2}'}
    return catalog.create_table("ns.t", SCHEMA, properties=properties)


def commit_as_icemirror(
    table: Table, folder: Path, changes: Mapping[str, str] | None = None, *, rows: bool = True
) -> str:
    """Commit as the pipeline does, with these changes of the summary; return the path of the root."""
    added = data_files(table, 1, 2) if rows else []
    path = str(folder / f"{uuid4()}.root.puffin")
    delta = make_delta(table, added)
    root = Root(snapshot_id=delta.snapshot_id, epoch=3, segments=(), files=())
    committed = commit_properties(table, root, path, CURSOR, "run", changes_files=rows)
    summary = {
        "icemirror.cursor": CURSOR.model_dump_json(),
        "icemirror.epoch": "3",
        "icemirror.index-root": path,
        **(changes or {}),
    }
    files = tuple(IndexedFile(path=file.file_path, rows=2, live_rows=2) for file in added)
    write_root(table.io, path, root.model_copy(update={"files": files}))
    replace(delta, properties=committed.properties, summary=summary).commit()
    table.refresh()
    return path


def test_new_mirror_has_no_cursor_and_no_index(table: Table) -> None:
    mirror = read_mirror(table, "shop.orders")
    assert (mirror.head, mirror.cursor, mirror.epoch, mirror.root) == (None, None, 0, None)
    assert mirror.field_map == {4: 1, 7: 2}
    assert (mirror.live_rows, mirror.index_bytes) == (0, 0)


def test_cursor_epoch_and_index_come_from_the_head(table: Table, tmp_path: Path) -> None:
    commit_as_icemirror(table, tmp_path)
    mirror = read_mirror(table, "shop.orders")
    assert (mirror.cursor, mirror.epoch, mirror.live_rows) == (CURSOR, 3, 2)
    assert mirror.head == table.current_snapshot()


def test_table_not_created_by_icemirror_is_refused(catalog: UnsteadyCatalog) -> None:
    other = catalog.create_table("ns.other", SCHEMA)
    with pytest.raises(
        Invalid, match=r"shop\.orders: the table exists, but icemirror did not create it.*Drop"
    ):
        read_mirror(other, "shop.orders")


def test_own_snapshot_below_a_foreign_one_is_found(table: Table, tmp_path: Path) -> None:
    commit_as_icemirror(table, tmp_path)
    own = table.metadata.current_snapshot_id
    commit_ids(table, 9)
    mirror = read_mirror(table, "shop.orders")
    assert mirror.has_foreign_writes
    assert mirror.head == table.current_snapshot()
    assert mirror.root is not None
    assert mirror.root.snapshot_id == own


@pytest.mark.parametrize(("operation", "changed"), [("replace", False), ("overwrite", True)])
def test_compaction_changes_no_row(table: Table, tmp_path: Path, operation: str, changed: bool) -> None:
    commit_as_icemirror(table, tmp_path)
    assert not read_mirror(table, "shop.orders").has_foreign_row_changes
    head = table.refresh().current_snapshot()
    assert head is not None
    commit_snapshot(table, operation, list_manifests(table.io, head.manifest_list), 77)
    assert read_mirror(table.refresh(), "shop.orders").has_foreign_row_changes is changed


def test_mirror_with_only_foreign_snapshots_is_refused(table: Table) -> None:
    commit_ids(table, 9)
    with pytest.raises(Invalid, match="none of its ancestors is"):
        read_mirror(table, "shop.orders")


def head_of(table: Table) -> int:
    head = table.refresh().current_snapshot()
    assert head is not None
    return head.snapshot_id


def roll_back(table: Table, snapshot_id: int) -> None:
    to_main = {"ref-name": "main", "snapshot-id": snapshot_id, "type": "branch"}
    table.catalog.commit_table(table, (), (SetSnapshotRefUpdate.model_validate(to_main),))
    table.refresh()


def expire_all_but_the_head(table: Table) -> None:
    """Expire like PyIceberg: the head then has no parent id."""
    for snapshot in table.refresh().metadata.snapshots:
        if snapshot.snapshot_id != table.metadata.current_snapshot_id:
            table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
            table.refresh()


@pytest.mark.parametrize("rows", [True, False], ids=["rows", "no rows"])
def test_expired_own_snapshot_is_found_by_its_files(table: Table, tmp_path: Path, rows: bool) -> None:
    """A merge without changes is identified by the commit before it."""
    commit_as_icemirror(table, tmp_path)
    commit_as_icemirror(table, tmp_path, rows=rows)
    own = head_of(table)
    commit_ids(table, 9)
    expire_all_but_the_head(table)
    mirror = read_mirror(table, "shop.orders")
    assert (mirror.indexed_snapshot_id, mirror.cursor, mirror.has_foreign_writes) == (own, CURSOR, True)


def test_expired_own_snapshot_is_found_after_another_writer_removed_its_files(
    table: Table, tmp_path: Path
) -> None:
    commit_as_icemirror(table, tmp_path)
    own = head_of(table)
    table.delete("id > 0")
    expire_all_but_the_head(table)
    assert read_mirror(table, "shop.orders").indexed_snapshot_id == own


def test_expired_own_snapshot_without_files_is_found(table: Table, tmp_path: Path) -> None:
    commit_as_icemirror(table, tmp_path, rows=False)
    own = head_of(table)
    commit_ids(table, 9)
    expire_all_but_the_head(table)
    assert read_mirror(table, "shop.orders").indexed_snapshot_id == own


def test_expired_own_snapshot_is_found_next_to_a_rolled_back_one(table: Table, tmp_path: Path) -> None:
    commit_as_icemirror(table, tmp_path)
    own = head_of(table)
    commit_ids(table, 8)
    rolled_back = head_of(table)
    roll_back(table, own)
    commit_ids(table, 9)
    table.maintenance.expire_snapshots().by_id(own).commit()
    assert {snapshot.snapshot_id for snapshot in table.metadata.snapshots} == {rolled_back, head_of(table)}
    assert read_mirror(table, "shop.orders").indexed_snapshot_id == own


@pytest.mark.parametrize("empty", [0, 1])
def test_cursor_of_a_rolled_back_snapshot_is_not_used(table: Table, tmp_path: Path, empty: int) -> None:
    """Its rows are missing: the events that it had merged would be lost."""
    commit_as_icemirror(table, tmp_path)
    first = head_of(table)
    commit_as_icemirror(table, tmp_path)
    for _ in range(empty):
        commit_as_icemirror(table, tmp_path, rows=False)
    roll_back(table, first)
    commit_ids(table, 9)
    expire_all_but_the_head(table)
    with pytest.raises(Invalid, match="none of its ancestors is"):
        read_mirror(table, "shop.orders")


def test_index_of_another_snapshot_is_corrupt(table: Table, tmp_path: Path) -> None:
    first = commit_as_icemirror(table, tmp_path)
    commit_as_icemirror(table, tmp_path, {"icemirror.index-root": first})
    with pytest.raises(Corrupt, match="belongs to snapshot"):
        read_mirror(table, "shop.orders")


def test_missing_index_root_is_unreadable(table: Table, tmp_path: Path) -> None:
    Path(commit_as_icemirror(table, tmp_path)).unlink()
    mirror = read_mirror(table, "shop.orders")
    assert mirror.root_unreadable
    assert (mirror.root, mirror.cursor) == (None, CURSOR)


def test_live_rows_are_known_without_a_readable_root(table: Table, tmp_path: Path) -> None:
    Path(commit_as_icemirror(table, tmp_path, {"icemirror.live-rows": "2"})).unlink()
    mirror = read_mirror(table, "shop.orders")
    assert (mirror.root_unreadable, mirror.live_rows) == (True, 2)


def test_damaged_index_root_is_unreadable(table: Table, tmp_path: Path) -> None:
    path = Path(commit_as_icemirror(table, tmp_path))
    path.write_bytes(path.read_bytes()[:-5])
    assert read_mirror(table, "shop.orders").root_unreadable


UNREADABLE = {
    "a cursor of a newer version": {
        "icemirror.cursor": CURSOR.model_dump_json().replace('"version":1', '"version":2')
    },
    "a cursor that is not JSON": {"icemirror.cursor": "?"},
    "an epoch that is not a number": {"icemirror.epoch": "many"},
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_summary_that_this_version_cannot_parse_is_invalid(table: Table, tmp_path: Path, name: str) -> None:
    """A newer icemirror may have written it; a crash would also stop the other tables."""
    commit_as_icemirror(table, tmp_path, UNREADABLE[name])
    with pytest.raises(IcemirrorError):
        read_mirror(table, "shop.orders")


@pytest.mark.parametrize("value", [None, "?", "[]"])
def test_missing_or_damaged_field_map_is_invalid(catalog: UnsteadyCatalog, value: str | None) -> None:
    properties = {"icemirror.source": "raw.x uuid", **({"icemirror.field-map": value} if value else {})}
    table = catalog.create_table("ns.u", SCHEMA, properties=properties)
    with pytest.raises(IcemirrorError):
        read_mirror(table, "shop.orders")


def test_property_names_equal_the_contract() -> None:
    """Existing mirrors have these names. Joining them here protects them from a mechanical rename of modules."""
    names = {
        "cursor": property_names.PROPERTY_CURSOR,
        "epoch": property_names.PROPERTY_EPOCH,
        "field-map": property_names.PROPERTY_FIELD_MAP,
        "index-root": property_names.PROPERTY_INDEX_ROOT,
        "live-rows": property_names.PROPERTY_LIVE_ROWS,
        "run-id": property_names.PROPERTY_RUN_ID,
        "source": property_names.PROPERTY_SOURCE,
        "version": property_names.PROPERTY_VERSION,
    }
    assert list(names.values()) == [".".join(("icemirror", name)) for name in names]
