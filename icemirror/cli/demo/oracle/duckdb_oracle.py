"""The second oracle: DuckDB's `arg_max` over the changelog's Parquet files. DuckDB is optional."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from icemirror.cli.demo.oracle.journal import WrittenFile
from icemirror.cli.demo.oracle.source_table import SourceTable


def has_duckdb() -> bool:
    """Return whether DuckDB is installed (`pip install icemirror[demo]`)."""
    return find_spec("duckdb") is not None


def has_iceberg_reader() -> bool:
    """Return whether DuckDB can read Iceberg tables: its two extensions are installed as packages."""
    return has_duckdb() and all(find_spec(f"duckdb_extension_{name}") for name in ("avro", "iceberg"))


def connect_duckdb(*, iceberg: bool = False) -> Any:  # noqa: ANN401  (duckdb ships incomplete types)
    """Open an in-memory database with lossless Arrow results; with `iceberg`, it can read tables."""
    import duckdb

    connection = duckdb.connect(config={"threads": 2, "autoinstall_known_extensions": False})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET arrow_lossless_conversion = true")
    if iceberg:
        # Its cache confuses the deletion vectors of one Puffin file (docs/how-to/readers.md).
        connection.execute("SET enable_external_file_cache = false")
        for name in ("avro", "iceberg"):  # iceberg requires avro
            connection.execute(f"LOAD '{_extension_file(name)}'")
    return connection


def quote(name: str) -> str:
    """Return a column's name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _extension_file(name: str) -> Path:
    spec = find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None:
        raise LookupError(f"the package duckdb-extension-{name} is not installed")
    (extension_file,) = Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension")
    return extension_file


def live_rows_of_files(subject: SourceTable, files: Sequence[WrittenFile]) -> pa.Table:
    """Return the live rows after these files, with the columns of the source table."""
    if not files:
        return subject.columns.empty_table()
    file_positions = pa.table(
        {
            "path": [file.path for file in files],
            "commit_no": [file.commit_no for file in files],
            "file_no": [file.file_no for file in files],
        }
    )
    columns = ", ".join(f"event.{quote(name)}" for name in subject.columns.names)
    key = ", ".join(quote(name) for name in subject.key)
    # arg_max returns only the winner's position, because it would lose the sign of −0.0
    # (DuckDB keeps structs there as sort keys).
    query = f"""
        WITH event AS (
            SELECT raw.*, raw.file_row_number AS pos, file_positions.commit_no, file_positions.file_no
            FROM read_parquet($paths, filename = true, file_row_number = true, union_by_name = true) AS raw
            JOIN file_positions ON raw.filename = file_positions.path),
        winner AS (
            SELECT arg_max(
                {{'commit_no': commit_no, 'file_no': file_no, 'pos': pos}},
                ({quote(subject.sequence)}, commit_no, file_no, pos)) AS at
            FROM event GROUP BY {key})
        SELECT {columns} FROM event JOIN winner
            ON event.commit_no = winner.at.commit_no AND event.file_no = winner.at.file_no
            AND event.pos = winner.at.pos
        WHERE event.{quote(subject.operation)} <> 'DELETE'"""  # noqa: S608
    with connect_duckdb() as connection:
        connection.register("file_positions", file_positions)
        return connection.execute(query, {"paths": [file.path for file in files]}).to_arrow_table()
