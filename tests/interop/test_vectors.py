"""Format v3, checked by Iceberg Java: stable row ids, upgraded tables keep their deletes, merges continue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icemirror.cli.demo.oracle.mirror_readers import read_by_duckdb
from spark_job.pyiceberg_private.manifest_files import next_row_id
from spark_job.write import deletes
from tests.interop.cases import V3_CASES, Case, commit_and_merge, make_lab, snapshot_ids
from tests.interop.iceberg_java import IcebergJava
from tests.interop.spark_sql import SparkSql
from tests.mirrors import MirroredWorld

COLUMNS = ("flag", "double", "amount", "day", "instant", "text", "words", "place", "counts")
LINEAGE = "_row_id, _last_updated_sequence_number"
INT = Case("int", "int", COLUMNS, seed=71, batch_size=60, format_version=3)
STRING = Case("string", "string", COLUMNS, ("bucket[3](id)",), 72, 2, format_version=3)

# Key → revision, row id, sequence number of the last change.
Lineage = dict[Any, tuple[int, int, int]]


def lineage_at(spark: SparkSql, snapshot_id: int) -> Lineage:
    rows = spark.query(f"SELECT id, revision, {LINEAGE} FROM {spark.mirror} VERSION AS OF {snapshot_id}")
    found = {row["id"]: tuple(row.values())[1:] for row in rows.to_pylist()}
    assert len(found) == rows.num_rows
    return found


@pytest.mark.parametrize("case", [INT, STRING], ids=str)
def test_updated_row_keeps_its_row_id_and_a_new_row_gets_a_new_one(
    tmp_path: Path, java: IcebergJava, case: Case
) -> None:
    lab = make_lab(tmp_path, case, merges=6)
    spark = SparkSql.on(java, lab)
    check_lineage(lab, spark, snapshot_ids(lab.mirror))


def check_lineage(lab: MirroredWorld, spark: SparkSql, ids: list[int]) -> None:
    before: Lineage = {}
    assigned: set[int] = set()
    updated = 0
    for snapshot_id in ids:
        snapshot = lab.mirror.snapshot_by_id(snapshot_id)
        assert snapshot is not None
        current = lineage_at(spark, snapshot_id)
        row_ids = [row_id for _, row_id, _ in current.values()]
        assert None not in row_ids
        assert len(set(row_ids)) == len(row_ids)
        for key, (revision, row_id, changed_at) in current.items():
            if key not in before:
                assert row_id not in assigned, f"{key}: the row id of a deleted row"
                assert changed_at == snapshot.sequence_number or not before
                continue
            old_revision, old_id, old_changed_at = before[key]
            assert row_id == old_id, f"{key}: changed its id"
            assert changed_at in (old_changed_at, snapshot.sequence_number)
            if revision != old_revision:
                updated += 1
                assert changed_at == snapshot.sequence_number
        assigned.update(row_ids)
        before = current
    assert updated > 5
    assert max(assigned) < (next_row_id(lab.mirror.metadata) or 0)


def test_rows_are_found_by_their_row_id(tmp_path: Path, java: IcebergJava) -> None:
    lab = make_lab(tmp_path, INT, merges=5)
    spark = SparkSql.on(java, lab)
    for key, (_, row_id, _) in list(lineage_at(spark, snapshot_ids(lab.mirror)[-1]).items())[::7]:
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
    lab = make_lab(tmp_path, as_v2)
    spark = SparkSql.on(java, lab)
    old_ids = snapshot_ids(lab.mirror)
    count_before = len(position_deletes(spark))
    assert count_before > 5
    spark.session.sql(f"ALTER TABLE {spark.mirror} SET TBLPROPERTIES ('format-version' = '3')")
    assert lab.mirror.metadata.format_version == 3
    for _ in range(4):
        commit_and_merge(lab)
        verdict = lab.world.verdict_of_rows(java.rewrite(lab.mirror).rows)
        assert verdict.equal, verdict
        assert lab.world.verdict(lab.mirror).equal
        assert lab.world.verdict_of_rows(read_by_duckdb(lab.mirror, lab.world.subject)).equal
    for snapshot_id in old_ids:
        assert lab.world.verdict(lab.mirror, snapshot_id).equal
    vectors = [
        delete for planned in java.plan(lab.mirror).values() for delete in planned if java.is_vector(delete)
    ]
    assert vectors
    for planned in java.plan(lab.mirror).values():
        assert len(planned) == 1 or not any(java.is_vector(delete) for delete in planned)
    check_lineage(lab, spark, snapshot_ids(lab.mirror)[len(old_ids) :])


def position_deletes(spark: SparkSql) -> list[Any]:
    """Return the deleted positions, each of which is listed once."""
    found: list[Any] = spark.query(f"SELECT file_path, pos FROM {spark.mirror}.position_deletes").to_pylist()
    assert len({(row["file_path"], row["pos"]) for row in found}) == len(found)
    return found


def test_java_deletes_and_compacts_on_top_of_our_vectors(tmp_path: Path, java: IcebergJava) -> None:
    """The table is not merged afterwards."""
    lab = make_lab(tmp_path, INT)
    spark = SparkSql.on(java, lab)
    before = lineage_at(spark, snapshot_ids(lab.mirror)[-1])
    deleted = sorted(before)[::5]
    spark.session.sql(f"ALTER TABLE {spark.mirror} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.session.sql(f"DELETE FROM {spark.mirror} WHERE id IN ({', '.join(map(str, deleted))})")
    remaining = {key: lineage for key, lineage in before.items() if key not in deleted}
    assert lineage_at(spark, snapshot_ids(lab.mirror)[-1]) == remaining
    assert sum(map(len, java.plan(lab.mirror).values())) > 0
    result = spark.call("rewrite_data_files(table => {table}, options => map('rewrite-all', 'true'))")
    assert int(str(result["rewritten_data_files_count"])) > 1
    assert sum(map(len, java.plan(lab.mirror).values())) == 0
    assert lineage_at(spark, snapshot_ids(lab.mirror)[-1]) == remaining


@pytest.mark.parametrize("case", [case for case in V3_CASES if case.for_spark], ids=str)
def test_vectors_of_a_commit_are_in_one_file(
    shared_mirror: Callable[[Case], MirroredWorld], java: IcebergJava, case: Case
) -> None:
    lab = shared_mirror(case)
    spark = SparkSql.on(java, lab)
    entries = spark.query(
        "SELECT snapshot_id, status, data_file.file_path, data_file.content "
        f"FROM {spark.mirror}.all_entries WHERE status = 1 AND data_file.content = 1"
    )
    by_commit = pa.table([entries["snapshot_id"], entries["file_path"]], names=["snapshot", "path"])
    paths = by_commit.group_by("snapshot").aggregate([("path", "count_distinct")])["path_count_distinct"]
    assert set(paths.to_pylist()) == {1}
