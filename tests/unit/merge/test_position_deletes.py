"""Files of position deletes are held against what the table counts of them."""

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
from spark_job.iceberg.view import LiveDelete, LiveFile
from spark_job.write.deletes import _SCHEMA
from spark_job.write.position_deletes import read_position_deletes

ONE, OTHER = (LiveFile(path, 10, 0, 0, Record()) for path in ("one", "other"))


def written(folder: Path, *deletes: tuple[str | None, int]) -> LiveDelete:
    paths, positions = zip(*deletes, strict=True)
    path = folder / "deletes.parquet"
    table = pa.table({"file_path": list(paths), "pos": list(positions)})
    fields = [field.with_nullable(True) for field in _SCHEMA]
    pq.write_table(table.cast(pa.schema(fields)), path)
    return LiveDelete(str(path), "manifest", len(deletes), path.stat().st_size, shared=len(set(paths)) > 1)


def read(delete: LiveDelete, *targets: LiveFile) -> dict[str, list[int]]:
    found = read_position_deletes(PyArrowFileIO(), (delete, targets))
    return {path: np.asarray(positions).tolist() for path, positions in found.items()}


def test_each_data_file_gets_its_positions_as_they_stand_there(tmp_path: Path) -> None:
    delete = written(tmp_path, ("one", 3), ("other", 0), ("one", 3), ("gone", 7), ("one", 1))
    assert read(delete, ONE, OTHER) == {"one": [3, 3, 1], "other": [0]}


def test_a_data_file_that_is_not_in_it_is_corrupt(tmp_path: Path) -> None:
    delete = written(tmp_path, ("one", 3), ("another", 1))
    with pytest.raises(Corrupt, match="does not have the deletes of other that the table counts"):
        read(delete, ONE, OTHER)


def test_deletes_of_other_files_in_one_about_a_single_file_are_corrupt(tmp_path: Path) -> None:
    delete = replace(written(tmp_path, ("one", 3), ("other", 1)), shared=False)
    with pytest.raises(Corrupt, match="does not have the deletes of one that the table counts"):
        read(delete, ONE)


@pytest.mark.parametrize("position", [-1, 10])
def test_a_row_that_the_data_file_does_not_have_is_corrupt(tmp_path: Path, position: int) -> None:
    with pytest.raises(Corrupt, match="deletes a row that one does not have; it has 10"):
        read(written(tmp_path, ("one", 3), ("one", position)), ONE)


def test_a_delete_without_a_data_file_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="do not name a row"):
        read(written(tmp_path, ("one", 3), (None, 1)), ONE)


def test_other_than_the_rows_that_the_table_says_are_corrupt(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="has 1 rows, although the table says 2"):
        read(replace(written(tmp_path, ("one", 3)), rows=2), ONE)
