"""A lake on the local disk: changelogs, their writers, and the configuration of their mirrors."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from benchmarks.bench import Limits
from benchmarks.columns import KEY, OPERATION, SEQUENCE
from benchmarks.dataset import COPIED
from benchmarks.fingerprint import fingerprint
from benchmarks.parts.merges import require_equal
from benchmarks.systems.iceberg_scan import read_batches
from benchmarks.table_state import TableState
from benchmarks.workloads.narrow_rows import NARROW
from benchmarks.workloads.workload import Ids
from icemirror.config_file.load import load_settings
from icemirror.settings import Settings
from spark_job.iceberg.catalogs import Catalogs

_NAMESPACE = "bench"
_SEED = 7
_CONFIG = """
iceberg:
  catalog: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}
telemetry: {{prometheus: null}}
trigger: {{state: {{type: sqlite, path: "{folder}/state/state.db"}}{trigger}}}
job:
  linger: {linger_seconds}s
  spark: {{spark.master: "local[{cores}]", spark.driver.memory: {memory}, spark.local.dir: "{folder}/spark"}}{job}
tables:
"""
_TABLE = "  - {{namespace: {namespace}, changelog_table: {table}_changelog, mirror_table: {table}}}\n"


@dataclass(frozen=True)
class LakeOptions:
    """Settings that differ from the defaults: additions to `trigger:` and `job:`, and how long an idle job lingers."""

    linger_seconds: float
    trigger: str = ""
    job: str = ""


@dataclass(frozen=True)
class Commit:
    """A commit on a changelog: its start time, its sequence number, and the id of a row that it inserted."""

    table: str
    begun_at: float
    sequence_number: int
    row_id: int


class Writer:
    """Commits to one changelog and tracks the expected state of its mirror."""

    def __init__(self, name: str, number: int, table: Table, rows: int) -> None:
        self.name, self.rows = name, rows
        self._table = table
        self._rng = np.random.default_rng([_SEED, number])
        self._state: TableState | None = None
        self._next_id = self._commits = 0

    def copy(self) -> Commit:
        """Commit the initial copy."""
        ids = np.arange(self.rows)
        return self._append(ids, np.repeat("INSERT", self.rows), [COPIED] * self.rows)

    def change(self, events: int) -> Commit:
        """Commit changes: half are new rows, a quarter updates and a quarter deletes of rows of the initial copy."""
        inserts, updates = events // 2, events // 4
        changed = self._rng.choice(self.rows, events - inserts, replace=False)
        ids = np.concatenate([np.arange(self._next_id, self._next_id + inserts), changed])
        sizes = [inserts, updates, events - inserts - updates]
        operations = np.repeat(["INSERT", "UPDATE", "DELETE"], sizes)
        sequences = [f"{self._commits + 1:016x}/{ordinal:016x}" for ordinal in range(events)]
        return self._append(ids, operations, sequences)

    def check(self, mirror: Table) -> None:
        """Raise `Different` if the mirror does not have the expected rows."""
        if self._state is None:
            raise AssertionError(f"{self.name}: nothing was committed")
        columns = mirror.schema().as_arrow()
        found = fingerprint(read_batches(mirror.metadata_location, columns), columns)
        require_equal(self.name, found, self._state.fingerprint)

    def _append(self, ids: Ids, operations: np.ndarray, sequences: list[str]) -> Commit:
        rows = NARROW.make_rows(ids, self._rng)
        self._state = self._state or TableState.empty(rows.schema)
        self._state.apply(ids, rows, operations == "DELETE")
        events = rows.append_column(OPERATION, pa.array(operations))
        events = events.append_column(SEQUENCE, pa.array(sequences))
        row_id = self._next_id
        self._next_id = max(self._next_id, int(ids.max()) + 1)
        self._commits += 1
        begun_at = time.time()
        self._table.append(events.cast(self._table.schema().as_arrow()))
        return Commit(self.name, begun_at, self._table.metadata.next_sequence_number() - 1, row_id)


class Lake:
    """A catalog in a SQLite file, a changelog per table, and the settings that mirror them."""

    def __init__(self, folder: Path, tables: dict[str, int], limits: Limits, options: LakeOptions) -> None:
        (folder / "warehouse").mkdir()
        (folder / "state").mkdir()
        self.state_folder = folder / "state"
        self.catalog_file = folder / "catalog.db"
        self.settings = self._configure(folder, tables, limits, options)
        self._catalog = Catalogs(self.settings).get(None)
        self._catalog.create_namespace(_NAMESPACE)
        self.writers = [
            Writer(name, number, self._make_changelog(name), rows)
            for number, (name, rows) in enumerate(tables.items())
        ]

    def mirror(self, name: str) -> Table:
        """Load the mirror."""
        return self._catalog.load_table((_NAMESPACE, name))

    def _configure(
        self, folder: Path, tables: dict[str, int], limits: Limits, options: LakeOptions
    ) -> Settings:
        config = folder / "icemirror.yaml"
        text = _CONFIG.format(
            folder=folder,
            cores=limits.cores,
            memory=limits.driver_memory,
            linger_seconds=options.linger_seconds,
            trigger=options.trigger and f", {options.trigger}",
            job=options.job and f"\n  {options.job}",
        )
        text += "".join(_TABLE.format(namespace=_NAMESPACE, table=name) for name in tables)
        config.write_text(text, encoding="utf-8")
        return load_settings(config, os.environ)

    def _make_changelog(self, name: str) -> Table:
        rows = NARROW.make_rows(np.arange(1), np.random.default_rng(_SEED))
        schema = rows.schema.append(pa.field(OPERATION, pa.string())).append(pa.field(SEQUENCE, pa.string()))
        table = self._catalog.create_table((_NAMESPACE, f"{name}_changelog"), schema)
        with table.update_schema() as update:
            update.set_identifier_fields(KEY)
        return table
