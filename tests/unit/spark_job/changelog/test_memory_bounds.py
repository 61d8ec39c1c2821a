"""Small files that decode to large values are read and written in batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import Invalid
from spark_job.changelog import memory_bounds
from spark_job.changelog.memory_bounds import batch_rows, max_row_bytes, refuse_long_values

ROWS = 200
LONG = "a" * (1 << 16)


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set all limits to a thousandth."""
    monkeypatch.setattr(memory_bounds, "_DECODE_WHOLE_BYTES", 256 << 10)
    monkeypatch.setattr(memory_bounds, "_BATCH_BYTES", 512 << 10)
    monkeypatch.setattr(memory_bounds, "_MIN_ROW_BYTES", 1 << 20)


def save(folder: Path, **columns: pa.Array) -> pq.ParquetFile:
    path = folder / "file.parquet"
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    return pq.ParquetFile(path)


class ClosedFileIO(PyArrowFileIO):
    """Fails if a file is opened again."""

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


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("name", COLUMNS)
def test_large_value_shared_by_many_rows_is_decoded_in_batches(
    tmp_path: Path, io: PyArrowFileIO, name: str
) -> None:
    with save(tmp_path, v=COLUMNS[name], n=pa.array(range(len(COLUMNS[name])))) as parquet:
        rows = batch_rows(io, str(tmp_path / "file.parquet"), parquet, 0, ["v", "n"])
        assert rows is not None
        assert rows * len(LONG) <= 512 << 10
        assert batch_rows(io, str(tmp_path / "file.parquet"), parquet, 0, ["n"]) is None


@pytest.mark.usefixtures("small_memory")
def test_many_short_values_are_decoded_at_once(tmp_path: Path, io: PyArrowFileIO) -> None:
    with save(tmp_path, v=pa.array([f"city {number % 900}" for number in range(10_000)])) as parquet:
        group = parquet.metadata.row_group(0)
        assert group.num_rows * group.total_byte_size > 256 << 10  # so that its values are checked
        assert batch_rows(io, str(tmp_path / "file.parquet"), parquet, 0, ["v"]) is None


def test_footer_suffices_for_an_ordinary_file(tmp_path: Path) -> None:
    with save(tmp_path, v=pa.array([f"city {number % 900}" for number in range(5000)])) as parquet:
        assert batch_rows(ClosedFileIO(), str(tmp_path / "file.parquet"), parquet, 0, ["v"]) is None


def test_memory_limit_covers_the_usual_decoded_size() -> None:
    assert max_row_bytes(6745) == 128 << 20
    assert max_row_bytes(20 << 20) == 320 << 20
    assert max_row_bytes(96 << 20) == 1 << 30


@pytest.mark.usefixtures("small_memory")
def test_long_key_repeated_in_many_rows_is_refused(
    tmp_path: Path, io: PyArrowFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_bounds, "_MAX_ROW_BYTES", 1 << 20)
    path = str(tmp_path / "file.parquet")
    with save(tmp_path, k=pa.array([LONG] * ROWS), s=pa.array(["a" * 33] * ROWS)) as parquet:
        with pytest.raises(Invalid, match="column k has values of up to 65536 bytes"):
            refuse_long_values(io, path, parquet, ["k", "s"])
        refuse_long_values(io, path, parquet, ["s"])
