"""Format v3, checked by Iceberg Java: stable row ids, upgraded tables keep their deletes, merges continue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icemirror.cli.demo.oracle.mirror_readers import read_by_duckdb
from spark_job.write import deletes
from tests.interop.cases import V3_CASES, Case, commit_and_merge, make_world, snapshot_ids
from tests.interop.iceberg_java import IcebergJava
from tests.interop.lineage import COLUMNS, INT, STRING, check_lineage, lineage_at
from tests.interop.spark_sql import SparkSql
from tests.lab.mirrored_world import MirroredWorld


@pytest.mark.parametrize("case", [INT, STRING], ids=str)
def test_updated_row_keeps_its_row_id_and_a_new_row_gets_a_new_one(
    tmp_path: Path, java: IcebergJava, case: Case
) -> None:
    world = make_world(tmp_path, case, merges=6)
    spark = SparkSql.on(java, world)
    check_lineage(world, spark, snapshot_ids(world.mirror))


def test_rows_are_found_by_their_row_id(tmp_path: Path, java: IcebergJava) -> None:
    world = make_world(tmp_path, INT, merges=5)
    spark = SparkSql.on(java, world)
    for key, (_, row_id, _) in list(lineage_at(spark, snapshot_ids(world.mirror)[-1]).items())[::7]:
        found = spark.query(f"SELECT id FROM {spark.mirror} WHERE _row_id = {row_id}")
        assert found["id"].to_pylist() == [key]


@pytest.mark.parametrize("case", [INT, STRING], ids=str)
@pytest.mark.parametrize(
    "max_separate_files", [64, 1], ids=["one delete file per data file", "shared delete files"]
)
def test_table_upgraded_by_java_keeps_its_deletes(
    tmp_path: Path, java: IcebergJava, case: Case, max_separate_files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletes, "_MAX_SEPARATE_FILES", max_separate_files)
    as_v2 = Case(case.name, case.key, COLUMNS, case.partition_by, case.seed, case.shards, case.batch_size)
    world = make_world(tmp_path, as_v2)
    spark = SparkSql.on(java, world)
    old_ids = snapshot_ids(world.mirror)
    count_before = len(position_deletes(spark))
    assert count_before > 5
    spark.session.sql(f"ALTER TABLE {spark.mirror} SET TBLPROPERTIES ('format-version' = '3')")
    assert world.mirror.metadata.format_version == 3
    for _ in range(4):
        commit_and_merge(world)
        verdict = world.oracle.verdict_of_rows(java.rewrite(world.mirror).rows)
        assert verdict.equal, verdict
        assert world.oracle.verdict(world.mirror).equal
        assert world.oracle.verdict_of_rows(read_by_duckdb(world.mirror, world.oracle.subject)).equal
    for snapshot_id in old_ids:
        assert world.oracle.verdict(world.mirror, snapshot_id).equal
    vectors = [
        delete for planned in java.plan(world.mirror).values() for delete in planned if java.is_vector(delete)
    ]
    assert vectors
    for planned in java.plan(world.mirror).values():
        assert len(planned) == 1 or not any(java.is_vector(delete) for delete in planned)
    check_lineage(world, spark, snapshot_ids(world.mirror)[len(old_ids) :])


def position_deletes(spark: SparkSql) -> list[Any]:
    """Return the deleted positions, each of which is listed once."""
    found: list[Any] = spark.query(f"SELECT file_path, pos FROM {spark.mirror}.position_deletes").to_pylist()
    assert len({(row["file_path"], row["pos"]) for row in found}) == len(found)
    return found


def test_java_deletes_and_compacts_on_top_of_our_vectors(tmp_path: Path, java: IcebergJava) -> None:
    """The table is not merged afterwards."""
    world = make_world(tmp_path, INT)
    spark = SparkSql.on(java, world)
    before = lineage_at(spark, snapshot_ids(world.mirror)[-1])
    deleted = sorted(before)[::5]
    spark.session.sql(f"ALTER TABLE {spark.mirror} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.session.sql(f"DELETE FROM {spark.mirror} WHERE id IN ({', '.join(map(str, deleted))})")
    remaining = {key: lineage for key, lineage in before.items() if key not in deleted}
    assert lineage_at(spark, snapshot_ids(world.mirror)[-1]) == remaining
    assert sum(map(len, java.plan(world.mirror).values())) > 0
    result = spark.call("rewrite_data_files(table => {table}, options => map('rewrite-all', 'true'))")
    assert int(str(result["rewritten_data_files_count"])) > 1
    assert sum(map(len, java.plan(world.mirror).values())) == 0
    assert lineage_at(spark, snapshot_ids(world.mirror)[-1]) == remaining


@pytest.mark.parametrize("case", [case for case in V3_CASES if case.for_spark], ids=str)
def test_vectors_of_a_commit_are_in_one_file(
    shared_mirror: Callable[[Case], MirroredWorld], java: IcebergJava, case: Case
) -> None:
    world = shared_mirror(case)
    spark = SparkSql.on(java, world)
    entries = spark.query(
        "SELECT snapshot_id, status, data_file.file_path, data_file.content "
        f"FROM {spark.mirror}.all_entries WHERE status = 1 AND data_file.content = 1"
    )
    by_commit = pa.table([entries["snapshot_id"], entries["file_path"]], names=["snapshot", "path"])
    paths = by_commit.group_by("snapshot").aggregate([("path", "count_distinct")])["path_count_distinct"]
    assert set(paths.to_pylist()) == {1}
