"""docs/reference/types.md is correct: every type, as column and as key, in both format versions, by three readers."""

from __future__ import annotations

from pathlib import Path

from icemirror.cli.demo.oracle.duckdb_oracle import has_iceberg_reader
from tests.interop.iceberg_java import IcebergJava
from tests.interop.types_page import PAGE, generate_page
from tests.support.need import need


def test_types_page_equals_the_results_of_the_readers(java: IcebergJava, tmp_path: Path) -> None:
    need(has_iceberg_reader(), "DuckDB's iceberg extension is not installed")
    generated = generate_page(java, tmp_path / "lab")
    assert PAGE.read_text(encoding="utf-8") == generated, "python -m tests.interop.types_page rewrites it"
