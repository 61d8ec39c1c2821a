"""The three readers of docs/types.md, each reading some columns of a mirror or of a table of Iceberg Java."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable, Table

from icemirror.cli.demo.oracle.duckdb_oracle import quote
from tests.interop.iceberg_java import IcebergJava
from tests.interop.type_lab import Typed

PYICEBERG, DUCKDB, JAVA = "PyIceberg", "DuckDB", "Iceberg Java"
READERS = (PYICEBERG, DUCKDB, JAVA)

# The rows of some columns of a table.
Read = Callable[[Table, Sequence[str]], pa.Table]


def readers(java: IcebergJava, duck: Any) -> Mapping[str, Read]:
    """By name."""

    def by_duckdb(table: Table, names: Sequence[str]) -> pa.Table:
        columns = ", ".join(map(quote, names))
        query = f"SELECT {columns} FROM iceberg_scan($at)"
        return duck.execute(query, {"at": table.metadata_location}).to_arrow_table()

    return {
        PYICEBERG: lambda table, names: table.scan(selected_fields=tuple(names)).to_arrow(),
        DUCKDB: by_duckdb,
        JAVA: lambda table, names: java.rewrite(table, columns=names).rows,
    }


def try_reading(read: Read, typed: Typed, names: Sequence[str], table: Table | None = None) -> str | None:
    """The error when these columns are read from the mirror, or from another table with its rows; or None."""
    try:
        rows = read(table or typed.mirror, (typed.number, *names))
    except Exception as error:  # any error of a reader is its result
        return f"{type(error).__name__}: {str(error)[:2000]}"
    return typed.wrong(rows, names)


def written_by_java(java: IcebergJava, typed: Typed, names: Sequence[str], folder: Path) -> Table:
    """The rows of the mirror in a table that Iceberg Java made and wrote."""
    location = java.copy(typed.mirror, (typed.number, *names), folder)
    return StaticTable.from_metadata(location)
