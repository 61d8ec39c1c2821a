"""docs/how-to/maintenance.md states the defaults of the code."""

from __future__ import annotations

import re

from icemirror.tables.mirror_properties import (
    MAX_SNAPSHOT_AGE_MS,
    MAX_SNAPSHOTS,
    MIN_MANIFESTS_TO_MERGE,
    MIN_SNAPSHOTS,
)
from spark_job.iceberg import create
from spark_job.iceberg.write_properties import read_number
from tests.unit.house.tracked import ROOT

TEXT = (ROOT / "docs" / "how-to" / "maintenance.md").read_text(encoding="utf-8")


def row(name: str) -> str:
    """Return the table row of a property."""
    (line,) = [line for line in TEXT.splitlines() if line.startswith("|") and name in line]
    return line


def test_documented_defaults_match_the_code() -> None:
    hours, least, most = map(int, re.findall(r"\d+", row(MIN_SNAPSHOTS).split("|")[3]))
    assert (least, most) == (read_number({}, MIN_SNAPSHOTS), read_number({}, MAX_SNAPSHOTS))
    assert hours * 3_600_000 == read_number({}, MAX_SNAPSHOT_AGE_MS)
    assert str(read_number({}, MIN_MANIFESTS_TO_MERGE)) in row(MIN_MANIFESTS_TO_MERGE).split("|")[3]
    versions = create.METADATA_RETENTION["write.metadata.previous-versions-max"]
    assert versions == row("previous-versions-max").split("|")[3].strip()
