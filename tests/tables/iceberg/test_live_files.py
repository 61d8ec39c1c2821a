from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.typedef import Record

from icemirror.errors import Corrupt, Invalid
from spark_job.iceberg import live_files as view
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.storage.immutable_cache import clear_file_caches
from spark_job.write import deletes
from tests.lab.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    commit_snapshot,
    data_files,
    delete_files,
    make_delta,
    manifest_of,
)
from tests.manifests import list_manifests
from tests.sim.mutation.anatomy import uncovered


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


def seen(table: Table) -> Mapping[str, LiveFile]:
    return live_files(table.refresh().io, table.current_snapshot())


def counts(table: Table) -> dict[str, tuple[int, int]]:
    return {path: (file.rows, file.deleted) for path, file in seen(table).items()}


def test_a_table_without_a_snapshot_has_no_files(table: Table) -> None:
    assert live_files(table.io, None) == {}


def test_every_live_file_is_seen_with_its_rows(table: Table) -> None:
    one, two = commit_ids(table, 1, 2, 3), commit_ids(table, 4)
    assert counts(table) == {one: (3, 0), two: (1, 0)}


def test_deleted_rows_are_counted_by_data_file_over_several_commits(table: Table) -> None:
    one, two = commit_ids(table, 1, 2, 3), commit_ids(table, 4, 5)
    make_delta(table, deletes=delete_files(table, {one: [0], two: [1]})).commit()
    table.refresh()
    make_delta(table, deletes=delete_files(table, {one: [2]})).commit()
    assert counts(table) == {one: (3, 2), two: (2, 1)}


def test_delete_files_for_a_whole_partition_are_counted_by_data_file(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", 1)
    one, two, three = commit_ids(table, 1, 2, 3), commit_ids(table, 4, 5), commit_ids(table, 6)
    files = delete_files(table, {one: [0, 2], two: [1]})
    assert len(files) == 1
    make_delta(table, deletes=files).commit()
    assert counts(table) == {one: (3, 2), two: (2, 1), three: (1, 0)}


def test_a_delete_that_outlived_its_data_file_counts_nowhere(table: Table) -> None:
    """As after a compaction by another engine: the deletes dangle."""
    one, two = commit_ids(table, 1, 2, 3), commit_ids(table, 4)
    dangling = delete_files(table, {one: [0]})
    other = data_files(table, 2, 3)
    manifests = [
        manifest_of(table, 66, other),
        manifest_of(table, 66, dangling, ManifestContent.DELETES),
    ]
    commit_snapshot(table, "replace", manifests, 66)
    assert counts(table) == {other[0].file_path: (2, 0)}
    assert two not in seen(table)


def test_a_file_that_was_removed_is_not_live(table: Table) -> None:
    one, two = commit_ids(table, 1), commit_ids(table, 2)
    table.delete("id = 1")
    assert counts(table) == {two: (1, 0)}
    assert one not in seen(table)


@pytest.mark.parametrize("one_manifest", [True, False])
def test_a_data_file_that_was_added_twice_is_refused(table: Table, *, one_manifest: bool) -> None:
    """Readers see its rows twice, and a delete would affect one entry only."""
    commit_ids(table, 1)
    seen(table)
    (file,) = data_files(table, 2)
    again = (
        [manifest_of(table, 55, [file, file])]
        if one_manifest
        else [manifest_of(table, 55, [file]) for _ in "ab"]
    )
    commit_snapshot(table, "append", [*_manifests(table), *again], 55)
    with pytest.raises(Invalid, match=r"a second time.*Roll the table back"):
        seen(table)


def test_equality_deletes_are_refused_with_a_way_out(table: Table) -> None:
    commit_ids(table, 1)
    equality = _delete_file(table, DataFileContent.EQUALITY_DELETES, equality_ids=[1])
    commit_snapshot(table, "overwrite", [manifest_of(table, 77, [equality], ManifestContent.DELETES)], 77)
    with pytest.raises(Invalid, match=r"equality deletes.*Rewrite"):
        seen(table)


def test_partition_and_spec_of_a_file_are_kept(catalog: UnsteadyCatalog) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"))
    table = catalog.create_table("ns.parted", SCHEMA, partition_spec=spec)
    make_delta(table, data_files(table, *range(20))).commit()
    found = list(seen(table).values())
    assert sorted(file.partition[0] for file in found) == [0, 1, 2, 3]
    assert {file.spec_id for file in found} == {table.metadata.default_spec_id}
    assert sum(file.rows for file in found) == 20


def test_a_manifest_is_read_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_ids(table, 1)
    commit_ids(table, 2)
    read: list[Any] = []
    real = view._read_manifest

    def counted(io: FileIO, manifest: ManifestFile) -> Any:
        read.append(manifest)
        return real(io, manifest)

    monkeypatch.setattr(view, "_read_manifest", counted)
    before = seen(table)
    assert len(read) == 2
    commit_ids(table, 3)
    read.clear()
    assert len(seen(table)) == len(before) + 1
    assert len(read) == 1


@pytest.mark.parametrize("remembered", [200_000, 3])
def test_a_view_that_moved_on_is_the_one_that_a_new_process_has(
    table: Table, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    """Whatever snapshot it moves to: with other manifests, without some, or an earlier one; even if it has to read
    again what it has forgotten."""
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", 1)
    monkeypatch.setattr(view._contents, "_max_weight", remembered)
    dice, left = random.Random(3), dict[str, list[int]]()
    for number in range(30):
        left[commit_ids(table, *range(4))] = [0, 1, 2, 3]
        chosen = [
            path for path in dice.sample(sorted(left), dice.randrange(min(4, len(left) + 1))) if left[path]
        ]
        if chosen:
            doomed = {path: [left[path].pop(dice.randrange(len(left[path])))] for path in chosen}
            make_delta(table, deletes=delete_files(table, doomed)).commit()
            table.refresh()
        if number % 7 == 6:
            kept = dice.sample(_manifests(table), len(_manifests(table)) - 1)
            commit_snapshot(table, "overwrite", kept, 1000 + number)
            left = {path: rows for path, rows in left.items() if path in seen(table)}
    history = table.refresh().metadata.snapshots
    for snapshot in (*history, *dice.sample(history, len(history))):
        moved, known = live_files(table.io, snapshot), dict(view._newest._contents)
        clear_file_caches()
        assert _comparable(live_files(table.io, snapshot)) == _comparable(moved)
        for folder, one in known.items():
            view._newest.put(folder, one)
        live_files(table.io, dice.choice(history))


def _comparable(files: Mapping[str, LiveFile]) -> dict[str, Any]:
    return {path: replace(file, deletes=tuple(sorted(file.deletes, key=str))) for path, file in files.items()}


def test_a_delete_file_without_bounds_is_read(table: Table) -> None:
    """Bounds are optional: another writer may leave them out."""
    one = commit_ids(table, 1, 2, 3)
    (ours,) = delete_files(table, {one: [0, 1]})
    bare = _delete_file(table, DataFileContent.POSITION_DELETES, path=ours.file_path, record_count=2)
    commit_snapshot(
        table,
        "overwrite",
        [
            *_manifests(table),
            manifest_of(table, 88, [bare], ManifestContent.DELETES),
        ],
        88,
    )
    assert counts(table) == {one: (3, 2)}


def _manifests(table: Table) -> list[Any]:
    head = table.current_snapshot()
    assert head is not None
    return list_manifests(table.io, head.manifest_list)


def _delete_file(table: Table, content: DataFileContent, path: str | None = None, **more: Any) -> DataFile:
    location = path or f"{table.location()}/data/eq.parquet"
    if path is None:
        io = table.io
        assert isinstance(io, PyArrowFileIO)
        with io.new_output(location).create() as stream:
            pq.write_table(pa.table({"id": [1]}), stream)
    file = DataFile.from_args(
        content=content,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=10,
        **{"record_count": 1, **more},
    )
    file.spec_id = 0
    return file


def test_a_damaged_page_of_a_shared_delete_file_is_corrupt(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow raises the same error for a short failure of storage."""
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", 1)
    one, two = commit_ids(table, 1, 2, 3), commit_ids(table, 4, 5)
    (file,) = delete_files(table, {one: [0, 2], two: [1]})
    make_delta(table, deletes=[file]).commit()
    path = Path(file.file_path.removeprefix("file://"))
    content = bytearray(path.read_bytes())
    _, first_value = uncovered(bytes(content))[0]
    content[first_value] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corrupt, match="deletes"):
        seen(table)


def test_a_delete_file_with_other_than_its_rows_is_corrupt(table: Table) -> None:
    one = commit_ids(table, 1, 2, 3)
    (ours,) = delete_files(table, {one: [0, 1]})
    more = _delete_file(table, DataFileContent.POSITION_DELETES, path=ours.file_path, record_count=3)
    manifests = [*_manifests(table), manifest_of(table, 88, [more], ManifestContent.DELETES)]
    commit_snapshot(table, "overwrite", manifests, 88)
    with pytest.raises(Corrupt, match="has 2 rows, although the table states 3"):
        seen(table)
