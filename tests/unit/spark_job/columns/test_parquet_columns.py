from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, LongType, NestedField

from icemirror.errors import Corrupt, IcemirrorError, Transient
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.read_events import read_events
from spark_job.changelog.read_rows import read_rows
from spark_job.columns.field_map import mirror_schema
from spark_job.columns.parquet_columns import open_parquet, read_columns, read_rows_at, row_group_starts
from spark_job.storage.translate_errors import translate_errors
from tests.lab.lab import ID_AND_NAME, events
from tests.unit.spark_job.index.failing_io import FailingFileIO
from tests.unit.spark_job.merge.samples import save, shape_of

MANY = " ".join(f"I{number}@{number}" for number in range(60))


def test_missing_file_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    with (
        pytest.raises(Corrupt, match=r"a data file is missing .*absent\.parquet"),
        open_parquet(io, str(tmp_path / "absent.parquet")),
    ):
        pass


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not Parquet at all, but long enough to be one"])
def test_file_that_is_not_parquet_is_corrupt(tmp_path: Path, io: PyArrowFileIO, content: bytes) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    with pytest.raises(Corrupt, match=r": .*bad\.parquet$"), open_parquet(io, str(path)):
        pass


def test_truncated_file_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(tmp_path, events(MANY))
    content = Path(file.path).read_bytes()
    for end in range(0, len(content), 97):
        Path(file.path).write_bytes(content[:end])
        with pytest.raises(Corrupt):
            read_events(io, file, 0, shape_of())


def test_damaged_file_raises_only_known_errors(tmp_path: Path, io: PyArrowFileIO) -> None:
    """Any other error would stop the other tables of the run."""
    file = save(tmp_path, events(MANY))
    content, rng = Path(file.path).read_bytes(), random.Random(5)
    mirror, ids = mirror_schema(ID_AND_NAME, (1, 2), (1,))
    first = np.zeros(1, np.uint32)
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 1, 4])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        Path(file.path).write_bytes(damaged)
        try:
            read_events(io, file, 0, shape_of())
            read_rows(io, [file], first, first, ids, mirror)
        except IcemirrorError:
            continue


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_transient_storage_failure_is_not_reported_as_damage(tmp_path: Path, failures: int) -> None:
    """Arrow raises an error without errno for both."""
    file = save(tmp_path, events(MANY))
    with pytest.raises(Transient), translate_errors("shop.orders"):
        read_events(FailingFileIO(failures), file, 0, shape_of())
    assert len(read_events(FailingFileIO(0), file, 0, shape_of())) == 60


def test_column_name_that_is_not_utf8_is_a_known_error(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(tmp_path, events("I1@1").rename_columns(["zzzzz", "b", "c", "d"]))
    content = Path(file.path).read_bytes()
    Path(file.path).write_bytes(content.replace(b"zzzzz", b"\xff\xfe\xff\xfe\xff"))
    with pytest.raises(IcemirrorError):
        read_events(io, file, 0, shape_of())


def test_columns_are_returned_in_the_requested_order(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(tmp_path, events("I7@1=x"))
    with open_parquet(io, file.path) as parquet:
        name, key, repeated = read_columns(parquet, file.path, [2, 1, 2])
    assert (name.to_pylist(), key.to_pylist(), repeated.to_pylist()) == (["x"], [7], ["x"])
    assert all(isinstance(column, pa.Array) for column in (name, key, repeated))


@pytest.mark.parametrize("row_group_size", [1, 7, 60])
@pytest.mark.parametrize("rows", [[0], [59], [0, 59], [6, 7, 8, 13, 14, 30], list(range(60)), []])
def test_values_at_rows_are_read_from_their_row_groups(
    tmp_path: Path, io: PyArrowFileIO, row_group_size: int, rows: list[int]
) -> None:
    file = save(tmp_path, events(MANY), row_group_size=row_group_size)
    with open_parquet(io, file.path) as parquet:
        (ids,) = read_rows_at(parquet, file.path, [1], np.array(rows, np.int64))
        assert row_group_starts(parquet)[-1] == 60
    assert ids.to_pylist() == rows


def test_row_beyond_the_file_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    file = save(tmp_path, events(MANY))
    with (
        pytest.raises(Corrupt, match="has 60 rows, but row 60 was requested"),
        open_parquet(io, file.path) as parquet,
    ):
        read_rows_at(parquet, file.path, [1], np.array([3, 60]))


def test_value_that_does_not_match_the_page_checksum_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    """Only the checksum shows it: the file is valid otherwise."""
    path = tmp_path / "checked.parquet"
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(events("I1@1=right I2@2=other"), path, write_page_checksum=True, **options)
    file = ChangelogFile(str(path), 0, 2, 1, 1)
    assert len(read_events(io, file, 0, shape_of())) == 2
    path.write_bytes(path.read_bytes().replace(b"INSERT", b"DELETE", 1))
    with pytest.raises(Corrupt, match="damaged"):
        read_events(io, file, 0, shape_of())


@pytest.mark.parametrize("rows", [0, 59, 61])
def test_file_with_another_row_count_is_corrupt(tmp_path: Path, io: PyArrowFileIO, rows: int) -> None:
    file = save(tmp_path, events(MANY))
    words = f"has 60 rows, although the table states {rows}"
    with pytest.raises(Corrupt, match=words), open_parquet(io, file.path, rows):
        pass


def test_field_id_that_the_table_never_had_is_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    """Otherwise the damaged column would be read as NULL."""
    table = events("I1@1")
    unknown = table.schema.field(1).with_metadata({"PARQUET:field_id": "18"})
    file = save(tmp_path, table.cast(table.schema.set(1, unknown)))
    shape = shape_of()
    assert len(read_events(io, file, 0, shape)) == 1
    with pytest.raises(Corrupt, match="field ids that its table does not have"):
        read_events(io, file, 0, replace(shape, last_column_id=4))
    assert len(read_events(io, file, 0, replace(shape, last_column_id=18))) == 1  # a dropped column


@pytest.mark.parametrize("name", ["id", "cdc_operation"])
def test_two_columns_with_one_field_id_are_corrupt(tmp_path: Path, io: PyArrowFileIO, name: str) -> None:
    table = events("I1@1")
    same = table.schema.field("name").with_metadata(table.schema.field(name).metadata)
    file = save(tmp_path, table.cast(table.schema.set(1, same)))
    with pytest.raises(Corrupt, match="two of its columns have one field id"):
        read_events(io, file, 0, shape_of())


def test_row_group_that_exhausts_memory_is_corrupt_unless_the_file_is_large(
    tmp_path: Path, io: PyArrowFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save(tmp_path, events(MANY))

    def exhaust(*_arguments: object, **_named: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 2147483648 failed")

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", exhaust)
    with pytest.raises(Corrupt, match="would take all memory"):
        read_events(io, file, 0, shape_of())
    monkeypatch.setattr("spark_job.columns.parquet_columns._MAX_USUAL_GROUP_BYTES", 100)
    with pytest.raises(Transient, match="not enough memory"):
        read_events(io, file, 0, shape_of())


def test_decimals_of_another_scale_are_corrupt(tmp_path: Path, io: PyArrowFileIO) -> None:
    """The numbers would be read wrong."""
    price = NestedField(2, "price", DecimalType(9, 2), required=False)
    schema = Schema(NestedField(1, "id", LongType(), required=True), price)
    fields = [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("price", pa.decimal128(9, 3), metadata={"PARQUET:field_id": "2"}),
    ]
    path = tmp_path / "scaled.parquet"
    pq.write_table(pa.table([[1], [Decimal("1.500")]], schema=pa.schema(fields)), path)
    first = np.zeros(1, np.uint32)
    with pytest.raises(Corrupt, match="decimals have scale 3, not 2"):
        read_rows(io, [ChangelogFile(str(path), 0, 1, 1, 1)], first, first, {1: 1, 2: 2}, schema)
