"""The source's side of the benchmark: a changelog table as Supabase ETL writes it, untimed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from benchmarks.dataset import COPIED, OPERATION, SEQUENCE
from benchmarks.fingerprint import KEY

Identifier = tuple[str, str]


def copy_base(catalog: Catalog, identifier: Identifier, base: Path) -> None:
    """The initial copy: every row an INSERT with the sequence zero, a snapshot for each file."""
    table: Table | None = None
    for file in sorted(base.glob("*.parquet")):
        rows = pq.read_table(file)
        count = rows.num_rows
        events = rows.append_column(OPERATION, pa.repeat("INSERT", count)).append_column(
            SEQUENCE, pa.repeat(COPIED, count)
        )
        table = table or _create(catalog, identifier, events.schema)
        table.append(events)


def append_flushes(catalog: Catalog, identifier: Identifier, batch: Path) -> None:
    """A batch of changes: a snapshot for each file, all of them visible at once."""
    table = catalog.load_table(identifier)
    with table.transaction() as transaction:
        for file in sorted(batch.glob("*.parquet")):
            transaction.append(pq.read_table(file))


def _create(catalog: Catalog, identifier: Identifier, schema: pa.Schema) -> Table:
    table = catalog.create_table(identifier, schema)
    with table.update_schema() as update:
        update.set_identifier_fields(KEY)
    return table
