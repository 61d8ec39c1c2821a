"""The three readers of docs/reference/types.md. Each reads columns of a mirror or of a table of Iceberg Java."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable, Table

from icemirror.cli.demo.oracle.duckdb_oracle import quote
from tests.interop.iceberg_java import IcebergJava
from tests.interop.type_lab import TypedMirror

PYICEBERG, DUCKDB, JAVA = "PyIceberg", "DuckDB", "Iceberg Java"
READERS = (PYICEBERG, DUCKDB, JAVA)

# Returns some columns of all rows of a table.
Read = Callable[[Table, Sequence[str]], pa.Table]


def readers(java: IcebergJava, duck: Any) -> Mapping[str, Read]:
    """Return the readers by name."""

    def by_duckdb(table: Table, names: Sequence[str]) -> pa.Table:
        columns = ", ".join(map(quote, names))
        query = f"SELECT {columns} FROM iceberg_scan($location)"
        return duck.execute(query, {"location": table.metadata_location}).to_arrow_table()

    return {
        PYICEBERG: lambda table, names: table.scan(selected_fields=tuple(names)).to_arrow(),
        DUCKDB: by_duckdb,
        JAVA: lambda table, names: java.rewrite(table, columns=names).rows,
    }


def try_reading(
    read: Read, typed: TypedMirror, names: Sequence[str], table: Table | None = None
) -> str | None:
    """Return the error of reading these columns from the mirror, or from another table with its rows; or None."""
    try:
        rows = read(table or typed.mirror, (typed.number, *names))
    except Exception as error:  # any error of a reader is its result
        return f"{type(error).__name__}: {str(error)[:2000]}"
    return typed.difference(rows, names)


def written_by_java(java: IcebergJava, typed: TypedMirror, names: Sequence[str], folder: Path) -> Table:
    """Return a table that Iceberg Java created and wrote, with the rows of the mirror."""
    location = java.copy(typed.mirror, (typed.number, *names), folder)
    return StaticTable.from_metadata(location)
