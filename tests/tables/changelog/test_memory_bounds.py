"""A small file with large rows is merged in batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_job.changelog import memory_bounds
from spark_job.merge import write_winners
from spark_job.write.data_files import write_rows
from tests.lab.lab import ID_AND_NAME, Lab, rows_table, sequence_text

ROWS = 200


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide all limits by a thousand."""
    monkeypatch.setattr(memory_bounds, "_DECODE_WHOLE_BYTES", 256 << 10)
    monkeypatch.setattr(memory_bounds, "_BATCH_BYTES", 512 << 10)
    monkeypatch.setattr(memory_bounds, "_MIN_ROW_BYTES", 1 << 20)


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("options", ["", 'partition_by: ["bucket[3](id)"]', "format_version: 3"])
def test_small_file_with_large_rows_is_merged_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    written_bytes: list[int] = []

    def record_size(io: Any, metadata: Any, table: pa.Table, *more: Any) -> Any:
        written_bytes.append(table.nbytes)
        return write_rows(io, metadata, table, *more)

    lab = Lab.make(tmp_path, options=options)
    for round_, letter in enumerate("ab", 1):
        rows = [
            {
                "id": ROWS - number,  # not in key order
                "name": letter * (1 << 16),
                "cdc_operation": "UPDATE",
                "sequence_number": sequence_text(round_),
            }
            for number in range(ROWS)
        ]
        with monkeypatch.context() as patch:
            patch.setattr(pq, "write_table", _compressed(pq.write_table))
            lab.commit(rows_table(ID_AND_NAME, rows))
        written_bytes.clear()
        with monkeypatch.context() as patch:
            patch.setattr(write_winners, "write_rows", record_size)
            lab.merge()
        assert sum(written_bytes) > 10 * (1 << 20)
        assert max(written_bytes) <= 1 << 20
    assert lab.rows() == dict.fromkeys(range(1, ROWS + 1), "b" * (1 << 16))


def _compressed(write: Any) -> Any:
    return lambda table, stream, **_: write(table, stream, compression="zstd")
