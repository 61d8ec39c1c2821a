"""The source's side of the benchmark: a changelog table as Supabase ETL writes it, untimed.

The files exist already, with field ids; the table only adds their paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog

from benchmarks.columns import KEY

Identifier = tuple[str, str]


def copy_base(catalog: Catalog, identifier: Identifier, files: Iterable[Path]) -> None:
    """The initial copy: every row an INSERT, in one snapshot."""
    files = list(files)
    table = catalog.create_table(identifier, pq.read_schema(files[0]))
    with table.update_schema() as update:
        update.set_identifier_fields(KEY)
    table.add_files([f"file://{file}" for file in files], check_duplicate_files=False)


def append_flushes(catalog: Catalog, identifier: Identifier, batch: Path) -> None:
    """A batch of changes: a snapshot for each file, all of them visible at once."""
    table = catalog.load_table(identifier)
    with table.transaction() as transaction:
        for file in sorted(batch.glob("*.parquet")):
            transaction.add_files([f"file://{file}"], check_duplicate_files=False)
