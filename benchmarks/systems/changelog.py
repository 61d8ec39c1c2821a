"""The changelog of the benchmark, as Supabase ETL writes it; its writes are not timed.

The files already exist, with field ids; the table only adds their paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog

from benchmarks.columns import KEY

Identifier = tuple[str, str]


def copy_base(catalog: Catalog, identifier: Identifier, files: Iterable[Path]) -> None:
    """Commit the initial copy: every row is an INSERT, in one snapshot."""
    files = list(files)
    table = catalog.create_table(identifier, pq.read_schema(files[0]))
    with table.update_schema() as update:
        update.set_identifier_fields(KEY)
    table.add_files([f"file://{file}" for file in files], check_duplicate_files=False)


def append_flushes(catalog: Catalog, identifier: Identifier, batch: Path) -> None:
    """Commit a batch of changes: one snapshot per file, all visible at once."""
    table = catalog.load_table(identifier)
    with table.transaction() as transaction:
        for file in sorted(batch.glob("*.parquet")):
            transaction.add_files([f"file://{file}"], check_duplicate_files=False)
