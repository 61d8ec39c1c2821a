"""Base tables and batches as Parquet, made once and kept in the user's cache, and what they must lead to.

<cache>/benchmarks/v1/narrow-10000000/part-00000.parquet …
<cache>/benchmarks/v1/small-10000000-2000-8/batch-000/part-0.parquet … expected.json
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.fingerprint import KEY, Fingerprint, hash_rows, of_hashes
from benchmarks.workloads.workload import Workload
from tests.cache import fetch_once

OPERATION = "cdc_operation"
SEQUENCE = "sequence_number"
COPIED = "0000000000000000/0000000000000000"  # Supabase ETL gives this to the rows of its initial copy
_VERSION = "v1"
_SEED = 7
_BASE_FILE_ROWS = 500_000
_FLUSH_EVENTS = 250_000


@dataclass(frozen=True)
class Dataset:
    """The files of a workload."""

    base: Path
    batches: tuple[Path, ...]
    expected: Fingerprint
    base_bytes: int


def make_dataset(workload: Workload) -> Dataset:
    """The files, from the cache or made now. The same workload gives the same bytes."""
    base = fetch_once(
        f"benchmarks/{_VERSION}/{workload.shape}-{workload.rows}",
        lambda scratch: _make_base(workload, scratch / "base"),
    )
    name = f"{workload.name}-{workload.rows}-{workload.events}-{workload.rounds}"
    changes = fetch_once(
        f"benchmarks/{_VERSION}/{name}", lambda scratch: _make_batches(workload, base, scratch / "batches")
    )
    return Dataset(
        base=base,
        batches=tuple(sorted(changes.glob("batch-*"))),
        expected=Fingerprint.model_validate_json((changes / "expected.json").read_text(encoding="utf-8")),
        base_bytes=sum(file.stat().st_size for file in base.iterdir()),
    )


def _make_base(workload: Workload, folder: Path) -> Path:
    folder.mkdir()
    for number, start in enumerate(range(0, workload.rows, _BASE_FILE_ROWS)):
        ids = np.arange(start, min(start + _BASE_FILE_ROWS, workload.rows))
        rows = workload.make_rows(ids, _generator(workload.shape, workload.rows, number))
        pq.write_table(rows, folder / f"part-{number:05d}.parquet", compression="zstd")
    return folder


def _make_batches(workload: Workload, base: Path, folder: Path) -> Path:
    folder.mkdir()
    state = _State.of(base)
    for number in range(workload.rounds):
        rng = _generator(workload.name, workload.rows, number)
        changes = workload.change(number, rng)
        rows = workload.make_rows(changes.ids, rng)
        state.apply(rows, changes.operations == "DELETE")
        events = rows.append_column(OPERATION, pa.array(changes.operations)).append_column(
            SEQUENCE, pa.array([f"{number + 1:016x}/{at:016x}" for at in range(rows.num_rows)])
        )
        target = folder / f"batch-{number:03d}"
        target.mkdir()
        for part, start in enumerate(range(0, events.num_rows, _FLUSH_EVENTS)):
            flush = events.slice(start, _FLUSH_EVENTS)
            pq.write_table(flush, target / f"part-{part}.parquet", compression="zstd")
    (folder / "expected.json").write_text(state.fingerprint().model_dump_json(), encoding="utf-8")
    return folder


def _generator(name: str, rows: int, number: int) -> np.random.Generator:
    return np.random.default_rng([_SEED, zlib.crc32(name.encode()), rows, number])


@dataclass
class _State:
    """What the table must be: for each id, is it there, and the hash of its row."""

    columns: pa.Schema
    live: np.ndarray[tuple[int], np.dtype[np.bool_]]
    hashes: np.ndarray[tuple[int], np.dtype[np.uint64]]

    @classmethod
    def of(cls, base: Path) -> _State:
        files = sorted(base.iterdir())
        columns = pq.read_schema(files[0])
        hashes = np.concatenate([hash_rows(pq.read_table(file), columns) for file in files])
        return cls(columns, np.ones(len(hashes), dtype=np.bool_), hashes)

    def apply(self, rows: pa.Table, deleted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        ids = rows[KEY].to_numpy()
        missing = int(ids.max()) + 1 - len(self.live)
        if missing > 0:
            self.live = np.append(self.live, np.zeros(missing, dtype=np.bool_))
            self.hashes = np.append(self.hashes, np.zeros(missing, dtype=np.uint64))
        # The last event of each id counts: the first one in reverse.
        ids, first = np.unique(ids[::-1], return_index=True)
        last = rows.num_rows - 1 - first
        self.live[ids] = ~deleted[last]
        self.hashes[ids] = hash_rows(rows, self.columns)[last]

    def fingerprint(self) -> Fingerprint:
        return of_hashes(np.flatnonzero(self.live), self.hashes[self.live])
