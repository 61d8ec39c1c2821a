"""A table with lean metadata goes on through many commits."""

from __future__ import annotations

from pathlib import Path

from spark_job.pyiceberg_private import lean_metadata
from spark_job.pyiceberg_private.manifest_files import enable_v3_metadata
from tests.lab.samples import SCHEMA as SCHEMA_OF_IDS
from tests.lab.samples import UnsteadyCatalog, commit_ids


def test_a_table_goes_on_through_many_commits(catalog: UnsteadyCatalog) -> None:
    enable_v3_metadata()
    lean_metadata.install()
    table = catalog.create_table("ns.t", SCHEMA_OF_IDS)
    for number in range(5):
        commit_ids(table, number)
        fresh = lean_metadata._parse_raw(Path(table.metadata_location.removeprefix("file://")).read_text())
        assert table.metadata == fresh
    assert len(table.metadata.snapshots) == 5
