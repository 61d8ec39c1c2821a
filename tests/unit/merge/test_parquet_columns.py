from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import Corrupt, IcemirrorError, Transient
from spark_job.collapse import read_changes
from spark_job.field_map import mirror_schema
from spark_job.iceberg.failures import named
from spark_job.parquet_columns import open_parquet, read_at, read_columns, row_group_starts
from spark_job.source_rows import read_rows
from tests.unit.key_index.failing_io import FailingFileIO
from tests.unit.merge.lab import ID_AND_NAME, events
from tests.unit.merge.samples import save, shape_of

MANY = " ".join(f"I{number}@{number}" for number in range(60))


def test_a_missing_file_is_corrupt_and_named(tmp_path: Path, io: PyArrowFileIO) -> None:
    with (
        pytest.raises(Corrupt, match=r"absent\.parquet: the file is gone"),
        open_parquet(io, str(tmp_path / "absent.parquet")),
    ):
        pass


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not Parquet at all, but long enough to be one"])
def test_a_file_that_is_no_parquet_is_corrupt_and_named(
    tmp_path: Path, io: PyArrowFileIO, content: bytes
) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    with pytest.raises(Corrupt, match=r"bad\.parquet: "), open_parquet(io, str(path)):
        pass


def test_a_truncated_file_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(tmp_path, events(MANY))
    content = Path(file.path).read_bytes()
    for end in range(0, len(content), 97):
        Path(file.path).write_bytes(content[:end])
        with pytest.raises(Corrupt):
            read_changes(io, file, 0, shape_of())


def test_a_damaged_file_gives_a_named_error_or_changes(tmp_path: Path, io: PyArrowFileIO) -> None:
    """Anything else would take the other tables of the run along."""
    file = save(tmp_path, events(MANY))
    content, dice = Path(file.path).read_bytes(), random.Random(5)
    mirror, ids = mirror_schema(ID_AND_NAME, (1, 2), (1,))
    first = np.zeros(1, np.uint32)
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(dice.choice([1, 1, 4])):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        Path(file.path).write_bytes(damaged)
        try:
            read_changes(io, file, 0, shape_of())
            read_rows(io, [file], first, first, ids, mirror)
        except IcemirrorError:
            continue


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_storage_that_fails_for_a_moment_has_not_damaged_the_file(tmp_path: Path, failures: int) -> None:
    """Arrow gives an error without a number for both."""
    file = save(tmp_path, events(MANY))
    with pytest.raises(Transient), named("shop.orders"):
        read_changes(FailingFileIO(failures), file, 0, shape_of())
    assert len(read_changes(FailingFileIO(0), file, 0, shape_of())) == 60


def test_a_column_name_that_is_no_text_is_a_named_error(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(tmp_path, events("I1@1").rename_columns(["zzzzz", "b", "c", "d"]))
    content = Path(file.path).read_bytes()
    Path(file.path).write_bytes(content.replace(b"zzzzz", b"\xff\xfe\xff\xfe\xff"))
    with pytest.raises(IcemirrorError):
        read_changes(io, file, 0, shape_of())


def test_columns_come_in_the_order_in_which_they_are_asked_for(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(tmp_path, events("I7@1=x"))
    with open_parquet(io, file.path) as parquet:
        name, key, again = read_columns(parquet, file.path, [2, 1, 2])
    assert (name.to_pylist(), key.to_pylist(), again.to_pylist()) == (["x"], [7], ["x"])
    assert all(isinstance(column, pa.Array) for column in (name, key, again))


@pytest.mark.parametrize("row_group_size", [1, 7, 60])
@pytest.mark.parametrize("rows", [[0], [59], [0, 59], [6, 7, 8, 13, 14, 30], list(range(60)), []])
def test_values_at_rows_are_read_from_the_row_groups_that_hold_them(
    tmp_path: Path, io: PyArrowFileIO, row_group_size: int, rows: list[int]
) -> None:
    file = save(tmp_path, events(MANY), row_group_size=row_group_size)
    with open_parquet(io, file.path) as parquet:
        (ids,) = read_at(parquet, file.path, [1], np.array(rows, np.int64))
        assert row_group_starts(parquet)[-1] == 60
    assert ids.to_pylist() == rows


def test_a_row_beyond_the_file_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(tmp_path, events(MANY))
    with (
        pytest.raises(Corrupt, match="has 60 rows, but row 60 was asked for"),
        open_parquet(io, file.path) as parquet,
    ):
        read_at(parquet, file.path, [1], np.array([3, 60]))
