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
from spark_job.iceberg import live_files as live_files_module
from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.storage.file_cache import clear_file_caches
from spark_job.write import deletes
from tests.lab.manifests import list_manifests
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
from tests.sim.mutation.anatomy import uncovered


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


def load(table: Table) -> Mapping[str, LiveFile]:
    return live_files(table.refresh().io, table.current_snapshot())


def counts(table: Table) -> dict[str, tuple[int, int]]:
    return {path: (file.rows, file.deleted_rows) for path, file in load(table).items()}


def test_table_without_a_snapshot_has_no_files(table: Table) -> None:
    assert live_files(table.io, None) == {}


def test_every_live_file_is_listed_with_its_rows(table: Table) -> None:
    first, second = commit_ids(table, 1, 2, 3), commit_ids(table, 4)
    assert counts(table) == {first: (3, 0), second: (1, 0)}


def test_deleted_rows_are_counted_by_data_file_over_several_commits(table: Table) -> None:
    first, second = commit_ids(table, 1, 2, 3), commit_ids(table, 4, 5)
    make_delta(table, deletes=delete_files(table, {first: [0], second: [1]})).commit()
    table.refresh()
    make_delta(table, deletes=delete_files(table, {first: [2]})).commit()
    assert counts(table) == {first: (3, 2), second: (2, 1)}


def test_delete_files_for_a_whole_partition_are_counted_by_data_file(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", 1)
    first, second, third = commit_ids(table, 1, 2, 3), commit_ids(table, 4, 5), commit_ids(table, 6)
    files = delete_files(table, {first: [0, 2], second: [1]})
    assert len(files) == 1
    make_delta(table, deletes=files).commit()
    assert counts(table) == {first: (3, 2), second: (2, 1), third: (1, 0)}


def test_dangling_delete_is_not_counted(table: Table) -> None:
    """A compaction by another engine leaves such deletes."""
    first, second = commit_ids(table, 1, 2, 3), commit_ids(table, 4)
    dangling = delete_files(table, {first: [0]})
    compacted = data_files(table, 2, 3)
    manifests = [
        manifest_of(table, 66, compacted),
        manifest_of(table, 66, dangling, ManifestContent.DELETES),
    ]
    commit_snapshot(table, "replace", manifests, 66)
    assert counts(table) == {compacted[0].file_path: (2, 0)}
    assert second not in load(table)


def test_removed_file_is_not_live(table: Table) -> None:
    first, second = commit_ids(table, 1), commit_ids(table, 2)
    table.delete("id = 1")
    assert counts(table) == {second: (1, 0)}
    assert first not in load(table)


@pytest.mark.parametrize("one_manifest", [True, False])
def test_data_file_that_was_added_twice_is_refused(table: Table, *, one_manifest: bool) -> None:
    """Readers see its rows twice, and a delete would affect one entry only."""
    commit_ids(table, 1)
    load(table)
    (file,) = data_files(table, 2)
    duplicates = (
        [manifest_of(table, 55, [file, file])]
        if one_manifest
        else [manifest_of(table, 55, [file]) for _ in "ab"]
    )
    commit_snapshot(table, "append", [*_manifests(table), *duplicates], 55)
    with pytest.raises(Invalid, match=r"a second time.*Roll the table back"):
        load(table)


def test_equality_deletes_are_refused_with_advice(table: Table) -> None:
    commit_ids(table, 1)
    equality = _delete_file(table, DataFileContent.EQUALITY_DELETES, equality_ids=[1])
    commit_snapshot(table, "overwrite", [manifest_of(table, 77, [equality], ManifestContent.DELETES)], 77)
    with pytest.raises(Invalid, match=r"equality deletes.*Rewrite"):
        load(table)


def test_partition_and_spec_of_a_file_are_kept(catalog: UnsteadyCatalog) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"))
    table = catalog.create_table("ns.parted", SCHEMA, partition_spec=spec)
    make_delta(table, data_files(table, *range(20))).commit()
    files = list(load(table).values())
    assert sorted(file.partition[0] for file in files) == [0, 1, 2, 3]
    assert {file.spec_id for file in files} == {table.metadata.default_spec_id}
    assert sum(file.rows for file in files) == 20


def test_manifest_is_read_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_ids(table, 1)
    commit_ids(table, 2)
    read: list[Any] = []
    real = live_files_module._read_manifest

    def record_read(io: FileIO, manifest: ManifestFile) -> Any:
        read.append(manifest)
        return real(io, manifest)

    monkeypatch.setattr(live_files_module, "_read_manifest", record_read)
    before = load(table)
    assert len(read) == 2
    commit_ids(table, 3)
    read.clear()
    assert len(load(table)) == len(before) + 1
    assert len(read) == 1


@pytest.mark.parametrize("cache_weight", [200_000, 3])
def test_incremental_update_equals_a_full_read(
    table: Table, monkeypatch: pytest.MonkeyPatch, cache_weight: int
) -> None:
    """The next snapshot may add manifests, drop some, or be an older one, and its manifests may have been evicted."""
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", 1)
    monkeypatch.setattr(live_files_module._contents, "_max_weight", cache_weight)
    rng, live_rows = random.Random(3), dict[str, list[int]]()
    for number in range(30):
        live_rows[commit_ids(table, *range(4))] = [0, 1, 2, 3]
        chosen = [
            path
            for path in rng.sample(sorted(live_rows), rng.randrange(min(4, len(live_rows) + 1)))
            if live_rows[path]
        ]
        if chosen:
            deleted = {path: [live_rows[path].pop(rng.randrange(len(live_rows[path])))] for path in chosen}
            make_delta(table, deletes=delete_files(table, deleted)).commit()
            table.refresh()
        if number % 7 == 6:
            kept = rng.sample(_manifests(table), len(_manifests(table)) - 1)
            commit_snapshot(table, "overwrite", kept, 1000 + number)
            live_rows = {path: rows for path, rows in live_rows.items() if path in load(table)}
    history = table.refresh().metadata.snapshots
    for snapshot in (*history, *rng.sample(history, len(history))):
        updated, cached = live_files(table.io, snapshot), dict(live_files_module._newest_by_folder._contents)
        clear_file_caches()
        assert _comparable(live_files(table.io, snapshot)) == _comparable(updated)
        for folder, content in cached.items():
            live_files_module._newest_by_folder.put(folder, content)
        live_files(table.io, rng.choice(history))


def _comparable(files: Mapping[str, LiveFile]) -> dict[str, Any]:
    return {path: replace(file, deletes=tuple(sorted(file.deletes, key=str))) for path, file in files.items()}


def test_delete_file_without_bounds_is_read(table: Table) -> None:
    """Bounds are optional: another writer may leave them out."""
    path = commit_ids(table, 1, 2, 3)
    (written,) = delete_files(table, {path: [0, 1]})
    without_bounds = _delete_file(
        table, DataFileContent.POSITION_DELETES, path=written.file_path, record_count=2
    )
    commit_snapshot(
        table,
        "overwrite",
        [
            *_manifests(table),
            manifest_of(table, 88, [without_bounds], ManifestContent.DELETES),
        ],
        88,
    )
    assert counts(table) == {path: (3, 2)}


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


def test_damaged_page_of_a_shared_delete_file_is_corrupt(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow raises the same error for a transient failure of storage."""
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", 1)
    first, second = commit_ids(table, 1, 2, 3), commit_ids(table, 4, 5)
    (file,) = delete_files(table, {first: [0, 2], second: [1]})
    make_delta(table, deletes=[file]).commit()
    local = Path(file.file_path.removeprefix("file://"))
    content = bytearray(local.read_bytes())
    _, first_value = uncovered(bytes(content))[0]
    content[first_value] ^= 1
    local.write_bytes(content)
    with pytest.raises(Corrupt, match="deletes"):
        load(table)


def test_delete_file_with_another_row_count_is_corrupt(table: Table) -> None:
    path = commit_ids(table, 1, 2, 3)
    (written,) = delete_files(table, {path: [0, 1]})
    miscounted = _delete_file(table, DataFileContent.POSITION_DELETES, path=written.file_path, record_count=3)
    manifests = [*_manifests(table), manifest_of(table, 88, [miscounted], ManifestContent.DELETES)]
    commit_snapshot(table, "overwrite", manifests, 88)
    with pytest.raises(Corrupt, match="has 2 rows, although the table states 3"):
        load(table)
