"""Lean metadata stays correct over many commits."""

from __future__ import annotations

from pathlib import Path

from spark_job.pyiceberg_private import lean_metadata
from spark_job.pyiceberg_private.manifest_files import enable_v3_metadata
from tests.lab.samples import SCHEMA as SCHEMA_OF_IDS
from tests.lab.samples import UnsteadyCatalog, commit_ids


def test_lean_metadata_equals_parsed_metadata_after_each_commit(catalog: UnsteadyCatalog) -> None:
    enable_v3_metadata()
    lean_metadata.install()
    table = catalog.create_table("ns.t", SCHEMA_OF_IDS)
    for number in range(5):
        commit_ids(table, number)
        parsed = lean_metadata._parse_raw(Path(table.metadata_location.removeprefix("file://")).read_text())
        assert table.metadata == parsed
    assert len(table.metadata.snapshots) == 5
