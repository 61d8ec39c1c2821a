"""DuckDB, where it is installed: a second opinion on rows, never part of the product."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any


def has_duckdb() -> bool:
    """Whether DuckDB is there (`pip install icemirror[demo]`)."""
    return find_spec("duckdb") is not None


def has_iceberg_reader() -> bool:
    """Whether DuckDB can read Iceberg tables here: its two extensions are installed as packages."""
    return has_duckdb() and all(find_spec(f"duckdb_extension_{name}") for name in ("avro", "iceberg"))


def connect_duckdb(*, iceberg: bool = False) -> Any:  # noqa: ANN401  (duckdb ships incomplete types)
    """An in-memory database that hands out Arrow without loss; with `iceberg`, able to read tables."""
    import duckdb

    connection = duckdb.connect(config={"threads": 2, "autoinstall_known_extensions": False})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET arrow_lossless_conversion = true")
    if iceberg:
        # Its cache takes the deletion vectors of one Puffin file for each other (docs/readers.md).
        connection.execute("SET enable_external_file_cache = false")
        for name in ("avro", "iceberg"):  # iceberg needs avro to be there
            connection.execute(f"LOAD '{_extension_file(name)}'")
    return connection


def quote(name: str) -> str:
    """A column's name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _extension_file(name: str) -> Path:
    spec = find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None:
        raise LookupError(f"the package duckdb-extension-{name} is not installed")
    (found,) = Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension")
    return found
