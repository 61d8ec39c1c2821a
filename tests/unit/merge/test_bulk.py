"""Files that are small, and take much memory: they are read and written in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import Invalid
from spark_job import shard
from spark_job.changelog import bulk
from spark_job.changelog.bulk import batch_rows, piece_bytes, require_short
from spark_job.write.data_files import write_rows
from tests.unit.merge.lab import ID_AND_NAME, Lab, rows_table, sequence_text

ROWS = 200
LONG = "a" * (1 << 16)


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of what is usual."""
    monkeypatch.setattr(bulk, "_LITTLE_BYTES", 256 << 10)
    monkeypatch.setattr(bulk, "_BATCH_BYTES", 512 << 10)
    monkeypatch.setattr(bulk, "_PIECE_BYTES", 1 << 20)


def save(folder: Path, **columns: pa.Array) -> pq.ParquetFile:
    path = folder / "file.parquet"
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    return pq.ParquetFile(path)


class Closed(PyArrowFileIO):
    """Nothing is to be opened again."""

    def new_input(self, location: str) -> Any:
        raise AssertionError(location)


COLUMNS = {
    "text": pa.array([LONG] * ROWS),
    "in a struct": pa.array([{"a": 1, "b": LONG}] * ROWS),
    "in a list": pa.array([[LONG]] * ROWS),
    "in a list that begins empty": pa.array([[]] * 2000 + [[LONG]] * ROWS),
    "in a map": pa.array([[("k", LONG)]] * ROWS, pa.map_(pa.string(), pa.string())),
    "once short": pa.array(["b"] * ROWS + [LONG] * ROWS),
    "NULL at first": pa.array([None] * 2000 + [LONG] * ROWS),
}


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", COLUMNS)
def test_a_value_that_many_rows_share_is_unpacked_for_few_of_them_at_once(
    tmp_path: Path, io: PyArrowFileIO, name: str
) -> None:
    with save(tmp_path, v=COLUMNS[name], n=pa.array(range(len(COLUMNS[name])))) as parquet:
        most = batch_rows(io, str(tmp_path / "file.parquet"), parquet, 0, ["v", "n"])
        assert most is not None
        assert most * len(LONG) <= 512 << 10
        assert batch_rows(io, str(tmp_path / "file.parquet"), parquet, 0, ["n"]) is None


@pytest.mark.usefixtures("little_memory")
def test_values_that_are_many_and_short_are_read_at_once(tmp_path: Path, io: PyArrowFileIO) -> None:
    with save(tmp_path, v=pa.array([f"city {number % 900}" for number in range(10_000)])) as parquet:
        group = parquet.metadata.row_group(0)
        assert group.num_rows * group.total_byte_size > 256 << 10  # so that it is looked at
        assert batch_rows(io, str(tmp_path / "file.parquet"), parquet, 0, ["v"]) is None


def test_of_an_ordinary_file_the_footer_is_enough(tmp_path: Path) -> None:
    with save(tmp_path, v=pa.array([f"city {number % 900}" for number in range(5000)])) as parquet:
        assert batch_rows(Closed(), str(tmp_path / "file.parquet"), parquet, 0, ["v"]) is None


def test_what_a_large_file_usually_unpacks_to_is_held_at_once() -> None:
    assert piece_bytes(6745) == 128 << 20
    assert piece_bytes(20 << 20) == 320 << 20
    assert piece_bytes(96 << 20) == 1 << 30


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("options", ["", 'partition_by: ["bucket[3](id)"]', "format_version: 3"])
def test_a_small_file_of_large_rows_is_merged_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    held: list[int] = []
    write = write_rows

    def noted(io: Any, metadata: Any, table: pa.Table, *more: Any) -> Any:
        held.append(table.nbytes)
        return write(io, metadata, table, *more)

    lab = Lab.make(tmp_path, options=options)
    for round_, letter in enumerate("ab", 1):
        rows = [
            {
                "id": ROWS - number,  # another order than that of the keys
                "name": letter * (1 << 16),
                "cdc_operation": "UPDATE",
                "sequence_number": sequence_text(round_),
            }
            for number in range(ROWS)
        ]
        with monkeypatch.context() as patch:
            patch.setattr(pq, "write_table", _packed(pq.write_table))
            lab.commit(rows_table(ID_AND_NAME, rows))
        held.clear()
        with monkeypatch.context() as patch:
            patch.setattr(shard, "write_rows", noted)
            lab.merge()
        assert sum(held) > 10 * (1 << 20)
        assert max(held) <= 1 << 20
    assert lab.rows() == dict.fromkeys(range(1, ROWS + 1), "b" * (1 << 16))


@pytest.mark.usefixtures("little_memory")
def test_a_key_that_is_long_and_many_times_there_is_refused(
    tmp_path: Path, io: PyArrowFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_MOST_BYTES", 1 << 20)
    path = str(tmp_path / "file.parquet")
    with save(tmp_path, k=pa.array([LONG] * ROWS), s=pa.array(["a" * 33] * ROWS)) as parquet:
        with pytest.raises(Invalid, match="column k holds values of up to 65536 bytes"):
            require_short(io, path, parquet, ["k", "s"])
        require_short(io, path, parquet, ["s"])


def _packed(write: Any) -> Any:
    return lambda table, stream, **_: write(table, stream, compression="zstd")
