"""Iceberg Java's maintenance of a mirror keeps the key index: the next merge continues from it."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_job.iceberg.property_names import PROPERTY_INDEX_ROOT
from spark_job.index import tiers
from spark_job.index.location import index_location
from spark_job.index.root import Root, read_root
from tests.interop.cases import Case, commit_and_merge, make_world, snapshot_ids
from tests.interop.iceberg_java import IcebergJava
from tests.interop.spark_sql import SparkSql
from tests.lab.mirrored_world import MirroredWorld

COLUMNS = ("flag", "double", "amount", "day", "instant", "text", "ref", "blob", "words", "place", "counts")
SEGMENT, ROOT = ".segment.puffin", ".root.puffin"


@pytest.mark.parametrize(
    "case",
    [
        Case("int", "int", COLUMNS, seed=21),
        Case("string_in_buckets", "string", COLUMNS, ("bucket[4](id)", "day(instant)"), seed=22, shards=2),
    ],
    ids=str,
)
def test_next_merge_uses_the_same_index(
    tmp_path: Path, java: IcebergJava, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "FAN_IN", 100)  # no merges of segments: new ones belong to the slice
    world = make_world(tmp_path, case)
    index, root = index_files(world), current_root(world)
    assert len(index) == len(root.segments) + len(snapshot_ids(world.mirror)), (
        "segments, and one root per snapshot"
    )
    spark = SparkSql.on(java, world)

    compute_statistics(spark, world)
    expire(spark, world)
    remove_orphans(spark, world)
    assert index_files(world) == index
    assert world.oracle.verdict_of_rows(java.rewrite(world.mirror).rows).equal

    slices = commit_and_merge(world)
    after, next_root = index_files(world), current_root(world)
    assert {name: after[name] for name in index} == index
    added = [name for name in after if name not in index]
    assert len([name for name in added if name.endswith(ROOT)]) == slices
    new_segments = len([name for name in added if name.endswith(SEGMENT)])
    assert 0 < new_segments <= slices * case.shards
    assert len(added) == slices + new_segments
    assert next_root.segments[new_segments:] == root.segments
    verdict = world.oracle.verdict(world.mirror)
    assert verdict.equal, verdict
    verdict = world.oracle.verdict_of_rows(java.rewrite(world.mirror).rows)
    assert verdict.equal, verdict


def compute_statistics(spark: SparkSql, world: MirroredWorld) -> None:
    result = spark.call("compute_table_stats({table})")
    (statistics,) = world.mirror.metadata.statistics
    assert statistics.statistics_path == result["statistics_file"]
    assert statistics.blob_metadata


def expire(spark: SparkSql, world: MirroredWorld) -> None:
    head = world.mirror.current_snapshot()
    assert head is not None
    expired = len(snapshot_ids(world.mirror)) - 1
    assert expired > 1
    result = spark.call(
        f"expire_snapshots(table => {{table}}, older_than => {sql_time(timedelta(hours=1))}, retain_last => 1)"
    )
    assert result["deleted_manifest_lists_count"] == expired
    assert snapshot_ids(world.mirror) == [head.snapshot_id]


def remove_orphans(spark: SparkSql, world: MirroredWorld) -> None:
    """Remove orphans of any age; only files that the table does not reference are removed."""
    table = local(world.mirror.location())
    orphan = table / "data" / "orphan.parquet"
    orphan.write_bytes(b"orphan")
    long_ago = time.time() - timedelta(days=9).total_seconds()
    for path in table.parent.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    spark.call(f"remove_orphan_files(table => {{table}}, older_than => {sql_time(timedelta(days=-2))})")
    assert not orphan.exists()


def sql_time(from_now: timedelta) -> str:
    return f"TIMESTAMP '{datetime.now(UTC) + from_now:%Y-%m-%d %H:%M:%S}'"


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def index_files(world: MirroredWorld) -> dict[str, bytes]:
    """Return the contents of the index files by name."""
    folder = local(index_location(world.mirror.metadata, None))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def current_root(world: MirroredWorld) -> Root:
    head = world.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    return read_root(world.mirror.io, head.summary.additional_properties[PROPERTY_INDEX_ROOT])
