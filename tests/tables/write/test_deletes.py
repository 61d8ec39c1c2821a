from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform

from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.live_files import DELETED_PATH_ID, DELETED_POS_ID, live_files
from spark_job.write import deletes
from spark_job.write.data_files import write_rows
from spark_job.write.deletes import write_deletes
from tests.lab.lab import local_path
from tests.lab.parquet_damage import unnoticed_flips
from tests.lab.region_table import SCHEMA, make_table


def commit(table: Table, data: Sequence[DataFile] = (), delete_files: Sequence[DataFile] = ()) -> None:
    table.refresh()
    snapshot_id = table.metadata.new_snapshot_id()
    RowDelta(table, table.current_snapshot(), snapshot_id, data, delete_files, {}, {"p": "1"}).commit()
    table.refresh()


def add_rows(table: Table, ids: Sequence[int], regions: Sequence[int]) -> list[str]:
    """Commit rows and return the paths of their files."""
    rows = pa.table({"id": ids, "region": regions}).cast(schema_to_pyarrow(SCHEMA))
    files = write_rows(table.refresh().io, table.metadata, rows, []).files
    commit(table, files)
    return [file.file_path for file in files]


def delete(table: Table, rows_by_path: dict[str, list[int]]) -> list[DataFile]:
    positions = {path: np.array(rows, np.int64) for path, rows in rows_by_path.items()}
    live = live_files(table.io, table.current_snapshot())
    return write_deletes(table.io, table.metadata, positions, live, [])


def content(file: DataFile) -> list[tuple[str, int]]:
    table = pq.read_table(local_path(file.file_path))
    return list(zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True))


def test_nothing_to_delete_writes_nothing(tmp_path: Path) -> None:
    assert delete(make_table(tmp_path), {}) == []


def test_each_data_file_gets_a_separate_delete_file(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    (first,), (second,) = add_rows(table, [1, 2, 3], [0] * 3), add_rows(table, [4, 5], [0] * 2)
    files = delete(table, {first: [0, 2], second: [1]})
    assert [content(file) for file in files] == [[(first, 0), (first, 2)], [(second, 1)]]
    assert {file.content for file in files} == {DataFileContent.POSITION_DELETES}
    commit(table, delete_files=files)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 4]


def test_bounds_identify_the_data_file(tmp_path: Path) -> None:
    """Without bounds readers apply every delete file to every data file."""
    table = make_table(tmp_path)
    (path,) = add_rows(table, [1, 2, 3], [0] * 3)
    (file,) = delete(table, {path: [1, 2]})
    assert file.lower_bounds == {DELETED_PATH_ID: path.encode(), DELETED_POS_ID: struct.pack("<q", 1)}
    assert file.upper_bounds == {DELETED_PATH_ID: path.encode(), DELETED_POS_ID: struct.pack("<q", 2)}
    assert file.record_count == 2
    assert file.file_size_in_bytes == local_path(file.file_path).stat().st_size


def test_delete_file_has_the_columns_of_the_specification(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    (path,) = add_rows(table, [1], [0])
    (file,) = delete(table, {path: [0]})
    schema = pq.read_schema(local_path(file.file_path))
    assert [(field.name, field.type, field.nullable) for field in schema] == [
        ("file_path", pa.string(), False),
        ("pos", pa.int64(), False),
    ]
    assert [field.metadata[b"PARQUET:field_id"] for field in schema] == [b"2147483546", b"2147483545"]


@pytest.mark.parametrize(("max_files", "expected"), [(3, 3), (2, 1)])
def test_many_data_files_share_one_delete_file_per_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_files: int, expected: int
) -> None:
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", max_files)
    table = make_table(tmp_path)
    paths = [add_rows(table, [number, number + 10], [0, 0])[0] for number in range(3)]
    files = delete(table, {path: [1] for path in paths})
    assert len(files) == expected
    commit(table, delete_files=files)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]


def test_delete_file_for_a_partition_is_sorted_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", 0)
    table = make_table(tmp_path)
    paths = sorted(add_rows(table, list(range(9)), [0] * 9)[0] for _ in range(4))
    rows_by_path = {paths[2]: [8], paths[0]: [3, 5], paths[3]: [0, 1]}
    (file,) = delete(table, rows_by_path)
    assert content(file) == sorted((path, row) for path, rows in rows_by_path.items() for row in rows)
    assert file.lower_bounds == {DELETED_PATH_ID: paths[0].encode(), DELETED_POS_ID: struct.pack("<q", 0)}
    assert file.upper_bounds == {DELETED_PATH_ID: paths[3].encode(), DELETED_POS_ID: struct.pack("<q", 8)}
    assert file.record_count == 5


@pytest.mark.parametrize("max_files", [64, 1])
def test_delete_file_has_partition_and_spec_of_its_data_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_files: int
) -> None:
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", max_files)
    table = make_table(tmp_path, partitioned=True)
    first = add_rows(table, [1, 2, 3, 4], [7, 7, 8, 8])
    second = add_rows(table, [5, 6], [7, 8])
    live = live_files(table.io, table.current_snapshot())
    files = delete(table, {path: [0] for path in (*first, *second)})
    for file in files:
        for path, _ in content(file):
            assert (file.partition, file.spec_id) == (live[path].partition, live[path].spec_id)
    assert len(files) == (4 if max_files == 64 else 2)
    commit(table, delete_files=files)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 4]


def test_deletes_of_an_older_spec_use_that_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", 0)
    table = make_table(tmp_path)
    old = add_rows(table, [1, 2], [7, 8])
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(1), "b")
    new = add_rows(table.refresh(), [3, 4], [7, 8])
    files = delete(table, {old[0]: [0], new[0]: [1]})
    assert sorted(file.spec_id for file in files) == [0, 1]
    commit(table, delete_files=files)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3]


def test_every_flipped_bit_in_a_delete_page_is_detected(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    (path,) = add_rows(table, range(50), [1] * 50)
    (file,) = delete(table, {path: [3, 4, 30]})
    assert unnoticed_flips(local_path(file.file_path)) == 0
