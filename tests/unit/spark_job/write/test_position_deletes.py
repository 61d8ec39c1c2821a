"""Position delete files are checked against the counts of the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Record

from icemirror.errors import Corrupt
from spark_job.iceberg.live_files import LiveDelete, LiveFile
from spark_job.write.deletes import _SCHEMA
from spark_job.write.position_deletes import read_position_deletes

ONE, OTHER = (LiveFile(path, 10, 0, 0, Record()) for path in ("one", "other"))


def write_deletes(folder: Path, *deletes: tuple[str | None, int]) -> LiveDelete:
    paths, positions = zip(*deletes, strict=True)
    path = folder / "deletes.parquet"
    table = pa.table({"file_path": list(paths), "pos": list(positions)})
    fields = [field.with_nullable(True) for field in _SCHEMA]
    pq.write_table(table.cast(pa.schema(fields)), path)
    return LiveDelete(str(path), "manifest", len(deletes), path.stat().st_size, shared=len(set(paths)) > 1)


def read(delete: LiveDelete, *targets: LiveFile) -> dict[str, list[int]]:
    found = read_position_deletes(PyArrowFileIO(), delete, targets)
    return {path: np.asarray(positions).tolist() for path, positions in found.items()}


def test_positions_are_returned_per_data_file_in_file_order(tmp_path: Path) -> None:
    delete = write_deletes(tmp_path, ("one", 3), ("other", 0), ("one", 3), ("gone", 7), ("one", 1))
    assert read(delete, ONE, OTHER) == {"one": [3, 3, 1], "other": [0]}


def test_delete_file_without_its_data_file_is_corrupt(tmp_path: Path) -> None:
    delete = write_deletes(tmp_path, ("one", 3), ("another", 1))
    with pytest.raises(Corrupt, match="does not have the deletes of other that the table counts"):
        read(delete, ONE, OTHER)


def test_other_data_files_in_an_exclusive_delete_file_are_corrupt(tmp_path: Path) -> None:
    delete = replace(write_deletes(tmp_path, ("one", 3), ("other", 1)), shared=False)
    with pytest.raises(Corrupt, match="does not have the deletes of one that the table counts"):
        read(delete, ONE)


@pytest.mark.parametrize("position", [-1, 10])
def test_position_beyond_the_data_file_is_corrupt(tmp_path: Path, position: int) -> None:
    with pytest.raises(Corrupt, match="deletes a row that one does not have; it has 10"):
        read(write_deletes(tmp_path, ("one", 3), ("one", position)), ONE)


def test_delete_without_a_data_file_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="deletes without a data file or position"):
        read(write_deletes(tmp_path, ("one", 3), (None, 1)), ONE)


def test_row_count_that_differs_from_the_manifest_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="has 1 rows, although the table states 2"):
        read(replace(write_deletes(tmp_path, ("one", 3)), rows=2), ONE)
