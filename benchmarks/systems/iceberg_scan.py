"""Reads an Iceberg table by its metadata file with DuckDB: the same reader for every writer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from icemirror.cli.demo.oracle.duckdb_oracle import connect_duckdb, quote

_SCANS = 3
_BATCH_ROWS = 200_000


def time_scans(metadata_location: str, columns: pa.Schema) -> tuple[float, ...]:
    """Return the seconds of full scans over all columns, each with a new connection."""
    maxima = ", ".join(f"max({quote(name)})" for name in columns.names)
    seconds: list[float] = []
    for _ in range(_SCANS):
        with connect_duckdb(iceberg=True) as connection:
            began = time.perf_counter()
            connection.execute(
                f"SELECT count(*), {maxima} FROM iceberg_scan($location)", {"location": metadata_location}
            ).to_arrow_table()
            seconds.append(time.perf_counter() - began)
    return tuple(seconds)


def read_batches(metadata_location: str, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Return all rows."""
    names = ", ".join(quote(name) for name in columns.names)
    with connect_duckdb(iceberg=True) as connection:
        rows = connection.execute(
            f"SELECT {names} FROM iceberg_scan($location)", {"location": metadata_location}
        )
        yield from rows.to_arrow_reader(_BATCH_ROWS)
