"""The expected state of a table after changes, computed independently of every system."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.columns import row_columns
from benchmarks.fingerprint import Fingerprint, hash_rows
from benchmarks.workloads.workload import Ids


@dataclass
class TableState:
    """For each id: whether it exists, and the hash of its row."""

    columns: pa.Schema
    live: NDArray[np.bool_]
    hashes: NDArray[np.uint64]
    rows: int
    digest: int

    @classmethod
    def empty(cls, columns: pa.Schema) -> TableState:
        """Return an empty table with these columns."""
        return cls(columns, np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.uint64), 0, 0)

    @classmethod
    def of(cls, base: tuple[Path, ...]) -> TableState:
        """Return a table with the rows of base files."""
        columns = row_columns(pq.read_schema(base[0]))
        hashes = np.concatenate([np.load(file.with_name("hashes.npy")) for file in base])
        digest = int(hashes.sum(dtype=np.uint64))
        return cls(columns, np.ones(len(hashes), dtype=np.bool_), hashes, len(hashes), digest)

    def apply(self, ids: Ids, rows: pa.Table, deleted: NDArray[np.bool_]) -> None:
        """Apply a batch."""
        missing = int(ids.max()) + 1 - len(self.live)
        if missing > 0:
            self.live = np.append(self.live, np.zeros(missing, dtype=np.bool_))
            self.hashes = np.append(self.hashes, np.zeros(missing, dtype=np.uint64))
        # The last event of each id counts: the first one in reverse.
        touched, first = np.unique(ids[::-1], return_index=True)
        last = rows.num_rows - 1 - first
        before = self._sum(touched)
        self.live[touched] = ~deleted[last]
        self.hashes[touched] = hash_rows(rows, self.columns)[last]
        after = self._sum(touched)
        self.rows += after[0] - before[0]
        self.digest = (self.digest + after[1] - before[1]) % (1 << 64)

    @property
    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of the table."""
        return Fingerprint(rows=self.rows, digest=f"{self.digest:016x}")

    def _sum(self, ids: Ids) -> tuple[int, int]:
        live = ids[self.live[ids]]
        return len(live), int(self.hashes[live].sum(dtype=np.uint64))
