"""docs/types.md is correct: every type, as a column and as a key, in both format versions, by three readers."""

from __future__ import annotations

from pathlib import Path

from icemirror.cli.demo.oracle.duckdb_oracle import has_iceberg_reader
from tests.interop.iceberg_java import IcebergJava
from tests.interop.types_page import PAGE, prove
from tests.need import need


def test_the_page_says_what_the_readers_read(java: IcebergJava, tmp_path: Path) -> None:
    need(has_iceberg_reader(), "DuckDB's iceberg extension is not installed")
    proven = prove(java, tmp_path / "lab")
    assert PAGE.read_text(encoding="utf-8") == proven, "python -m tests.interop.types_page rewrites it"
