"""Compacted data files, checked by Iceberg Java: the same rows, row ids and changes, and merges continue."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table.snapshots import Operation

from spark_job.iceberg.live_files import live_files
from spark_job.maintenance import choose_files as choose
from tests.interop.cases import CASES, V3_CASES, Case, commit_and_merge, make_world, snapshot_ids
from tests.interop.iceberg_java import IcebergJava
from tests.interop.lineage import INT, STRING, check_lineage, lineage_at
from tests.interop.spark_sql import SparkSql
from tests.lab.mirrored_world import MirroredWorld

BY_NAME = {case.name: case for case in (*CASES, *V3_CASES)}
COMPACTED_CASES = [BY_NAME[name] for name in ("int_by_number", "uuid_in_buckets", "int_v3", "composite_v3")]


def compact(world: MirroredWorld) -> int:
    """Compact the mirror and return how many files fewer it has."""
    before = live_files(world.mirror.io, world.mirror.current_snapshot())
    assert world.pipeline.compact(world.pipeline.planner.require_plan(world.table)) is not None
    head = world.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary.operation is Operation.REPLACE
    return len(before) - len(live_files(world.mirror.io, head))


def assert_equals_oracle(world: MirroredWorld, java: IcebergJava) -> None:
    for verdict in (
        world.oracle.verdict(world.mirror),
        world.oracle.verdict_of_rows(java.rewrite(world.mirror).rows),
    ):
        assert verdict.equal, verdict


@pytest.mark.parametrize("case", COMPACTED_CASES, ids=str)
def test_all_readers_find_rows_after_compaction(
    tmp_path: Path, java: IcebergJava, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path, case)
    monkeypatch.setattr(choose, "FAN_IN", 2)
    assert compact(world) > 0
    assert_equals_oracle(world, java)
    for _ in range(3):
        commit_and_merge(world)
    assert_equals_oracle(world, java)


@pytest.mark.parametrize("case", [INT, STRING], ids=str)
def test_compaction_keeps_row_ids_and_last_updated_sequence_numbers(
    tmp_path: Path, java: IcebergJava, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path, case, merges=5)
    spark = SparkSql.on(java, world)
    before = lineage_at(spark, snapshot_ids(world.mirror)[-1])
    monkeypatch.setattr(choose, "FAN_IN", 2)
    assert compact(world) > 0
    assert lineage_at(spark, snapshot_ids(world.mirror)[-1]) == before
    commit_and_merge(world)
    check_lineage(world, spark, snapshot_ids(world.mirror))


def test_iceberg_java_continues_on_compacted_files(
    tmp_path: Path, java: IcebergJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path, BY_NAME["uuid_in_buckets"])
    spark = SparkSql.on(java, world)
    monkeypatch.setattr(choose, "FAN_IN", 2)
    compact(world)
    spark.call("rewrite_data_files(table => {table}, options => map('rewrite-all', 'true'))")
    commit_and_merge(world)
    spark.call("expire_snapshots(table => {table}, retain_last => 1)")
    commit_and_merge(world)
    assert_equals_oracle(world, java)
