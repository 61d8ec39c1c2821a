"""Base tables and batches as Parquet, generated once into the user's cache, with the expected results.

<cache>/benchmarks/v3/base/narrow/00000-500000.parquet, …-500000.hashes.npy
<cache>/benchmarks/v3/changes/small-10m-10000000-…/batch-0000/part-0.parquet … expected.json

Every file has the format of a changelog: the columns of the row, operation and sequence, with Iceberg's field ids.
A base of ten million rows is a prefix of the base of fifty million.
"""

from __future__ import annotations

import hashlib
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from benchmarks.columns import OPERATION, SEQUENCE, row_columns
from benchmarks.fingerprint import Fingerprint, hash_rows
from benchmarks.table_state import TableState
from benchmarks.workloads.workload import Shape, Workload
from tests.provision.cache import cache_directory, fetch_once

COPIED = "0000000000000000/0000000000000000"  # Supabase ETL's sequence for the rows of its initial copy
_FOLDER = "benchmarks/v3"
_SEED = 7
_BASE_FILE_ROWS = 500_000
_FLUSH_EVENTS = 250_000
_FIELD_ID = b"PARQUET:field_id"
_EXPECTED = TypeAdapter(tuple[Fingerprint, ...])


@dataclass(frozen=True)
class Dataset:
    """The files of a workload; `expected[n]` is the fingerprint of the table after n batches."""

    base: tuple[Path, ...]
    batches: tuple[Path, ...]
    expected: tuple[Fingerprint, ...]
    plain_bytes: int


def make_dataset(workload: Workload) -> Dataset:
    """Return the files, from the cache or generated now. The same workload gives the same bytes."""
    base = make_base(workload.shape, workload.rows)
    sizes = hashlib.sha256(repr(workload.events).encode()).hexdigest()[:8]
    name = f"{_FOLDER}/changes/{workload.name}-{workload.rows}-{len(workload.events)}-{sizes}"
    changes = fetch_once(name, lambda scratch: _make_batches(workload, base, scratch / "batches"))
    return Dataset(
        base=base,
        batches=tuple(sorted(changes.glob("batch-*"))),
        expected=_EXPECTED.validate_json((changes / "expected.json").read_bytes()),
        plain_bytes=sum(map(_plain_bytes, base)),
    )


def make_base(shape: Shape, rows: int) -> tuple[Path, ...]:
    """Return the files with the first `rows` rows of a shape."""
    parts = [
        (number, min(_BASE_FILE_ROWS, rows - start))
        for number, start in enumerate(range(0, rows, _BASE_FILE_ROWS))
    ]

    def make(part: tuple[int, int]) -> Path:
        number, count = part
        name = f"{_FOLDER}/base/{shape.name}/{number:05d}-{count}"
        folder = fetch_once(name, lambda scratch: _make_base_file(shape, number, count, scratch / "made"))
        return folder / "rows.parquet"

    with ThreadPoolExecutor(2) as pool:
        return tuple(pool.map(make, parts))


def delete_data() -> None:
    """Delete all generated files, including those of earlier versions."""
    for folder in (cache_directory() / _FOLDER).parent.glob("v*"):
        shutil.rmtree(folder, ignore_errors=True)


def _make_base_file(shape: Shape, number: int, count: int, folder: Path) -> Path:
    folder.mkdir()
    start = number * _BASE_FILE_ROWS
    rng = _generator(shape.name, 0, number)
    rows = shape.make_rows(np.arange(start, start + count), rng)
    if shape.streamed:
        lsns = start * 600 + np.cumsum(rng.integers(64, 512, count))
        sequences = pa.array([f"{lsn:016x}/{0:016x}" for lsn in lsns.tolist()])
    else:
        sequences = pa.repeat(COPIED, count)
    _write(rows, pa.repeat("INSERT", count), sequences, folder / "rows.parquet")
    np.save(folder / "hashes.npy", hash_rows(rows, row_columns(rows.schema)))
    return folder


def _make_batches(workload: Workload, base: tuple[Path, ...], folder: Path) -> Path:
    folder.mkdir()
    state = TableState.of(base)
    expected = [state.fingerprint]
    for number in range(len(workload.events)):
        rng = _generator(workload.name, workload.rows, number)
        changes = workload.change(number, rng)
        rows = workload.shape.make_rows(changes.ids, rng)
        state.apply(changes.ids, rows, changes.operations == "DELETE")
        expected.append(state.fingerprint)
        operations = pa.array(changes.operations)
        first = (number + 1) << 40
        sequences = pa.array(
            [f"{first + 100 * ordinal:016x}/{ordinal:016x}" for ordinal in range(rows.num_rows)]
        )
        target = folder / f"batch-{number:04d}"
        target.mkdir()
        for part, start in enumerate(range(0, rows.num_rows, _FLUSH_EVENTS)):
            path = target / f"part-{part}.parquet"
            _write(
                rows.slice(start, _FLUSH_EVENTS),
                operations.slice(start, _FLUSH_EVENTS),
                sequences.slice(start, _FLUSH_EVENTS),
                path,
            )
    (folder / "expected.json").write_bytes(_EXPECTED.dump_json(tuple(expected)))
    return folder


def _write(rows: pa.Table, operations: pa.Array, sequences: pa.Array, path: Path) -> None:
    events = rows.append_column(OPERATION, operations).append_column(SEQUENCE, sequences)
    fields = [
        field.with_metadata({_FIELD_ID: str(field_id)})
        for field_id, field in enumerate(events.schema, start=1)
    ]
    pq.write_table(events.cast(pa.schema(fields)), path, compression="zstd")


def _plain_bytes(path: Path) -> int:
    """Return the size of the file without the changelog's metadata columns."""
    footer = pq.read_metadata(path)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    added: int = sum(
        chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in (OPERATION, SEQUENCE)
    )
    return path.stat().st_size - added


def _generator(name: str, rows: int, number: int) -> np.random.Generator:
    return np.random.default_rng([_SEED, zlib.crc32(name.encode()), rows, number])
