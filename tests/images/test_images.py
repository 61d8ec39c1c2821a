"""The images of the Dockerfile: built on Debian's own Python, and run as the user that they name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from icemirror import __version__
from tests.images.builder import Builder, open_builder


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return open_builder(tmp_path_factory.mktemp("images"))


MERGE = """
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
catalog = load_catalog("default", type="sql", uri="sqlite:////tmp/lake/catalog.db", warehouse="file:///tmp/lake")
catalog.create_namespace("shop")
names = ("id", LongType()), ("cdc_operation", StringType()), ("sequence_number", LongType())
fields = [NestedField(at, name, kind, required=True) for at, (name, kind) in enumerate(names, 1)]
schema = Schema(*fields, identifier_field_ids=[1])
rows = pa.table({"id": [1, 2], "cdc_operation": ["INSERT"] * 2, "sequence_number": [1, 2]}, schema=schema.as_arrow())
catalog.create_table("shop.orders_changelog", schema).append(rows)
"""
CONFIG = """
iceberg: {catalog: {type: sql, uri: "sqlite:////tmp/lake/catalog.db", warehouse: "file:///tmp/lake"}}
tables: [{namespace: shop, changelog_table: orders_changelog, mirror_table: orders}]
job: {spark_from_events: 0}
"""


def test_the_trigger_is_small_and_runs_as_nobody(builder: Builder) -> None:
    image = builder.build("trigger")
    assert builder.inspect(image, "{{.OCIv1.Config.User}}") == "10001:10001"
    inside = builder.start(image)
    assert inside.run("icemirror", "--version").strip().endswith(__version__)
    assert inside.run("id", "-u").strip() == "10001"
    assert "no module" in inside.run("sh", "-c", "python -c 'import pyspark' 2>&1 || true").lower()
    for absent in ("pip", "gcc", "uv"):
        assert inside.run("sh", "-c", f"command -v {absent} || echo none").strip().endswith("none"), absent
    refused = inside.run("sh", "-c", "touch /opt/icemirror/x 2>&1 || true")
    assert "denied" in refused.lower()


def test_the_job_merges_on_spark(builder: Builder, tmp_path: Path) -> None:
    inside = builder.start(builder.build("job"))
    inside.run("sh", "-c", f"mkdir -p /tmp/lake && printf '%s' '{CONFIG}' > /tmp/lake/icemirror.yaml")
    inside.run("python", "-c", MERGE)
    told = inside.run("icemirror", "merge", "--json", "-c", "/tmp/lake/icemirror.yaml")  # noqa: S108
    assert json.loads(told)["outcome"] == "merged"
    assert json.loads(told)["live_rows"] == 2
    assert "usage" in inside.run(
        "sh", "-c", "/opt/icemirror/venv/bin/python /opt/icemirror/icemirror_job.py -h"
    )
