"""Second oracle: DuckDB's `arg_max` over the changelog's Parquet files, where the generator put them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from icemirror.cli.demo.oracle.duck import connect_duckdb, quote
from icemirror.cli.demo.oracle.journal import WrittenFile
from icemirror.cli.demo.oracle.subject import Subject


def live_rows_of_files(subject: Subject, files: Sequence[WrittenFile]) -> pa.Table:
    """The rows that are alive after these files, with the columns of the source table."""
    if not files:
        return subject.columns.empty_table()
    placed = pa.table(
        {
            "path": [file.path for file in files],
            "commit_no": [file.commit_no for file in files],
            "file_no": [file.file_no for file in files],
        }
    )
    columns = ", ".join(f"event.{quote(name)}" for name in subject.columns.names)
    key = ", ".join(quote(name) for name in subject.key)
    # arg_max yields only *where* the winner is: carried through it, a row would lose the sign of −0.0
    # (DuckDB keeps structs there as sort keys).
    query = f"""
        WITH event AS (
            SELECT raw.*, raw.file_row_number AS pos, placed.commit_no, placed.file_no
            FROM read_parquet($paths, filename = true, file_row_number = true, union_by_name = true) AS raw
            JOIN placed ON raw.filename = placed.path),
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
        connection.register("placed", placed)
        return connection.execute(query, {"paths": [file.path for file in files]}).to_arrow_table()
