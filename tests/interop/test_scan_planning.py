"""Iceberg Java's scan plans of a mirror: each data file with its deletes, and consistent metadata tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_job.iceberg.property_names import PROPERTY_LIVE_ROWS
from tests.interop.cases import CASES, V3_CASES, Case, commit_and_merge, make_world, snapshot_ids
from tests.interop.iceberg_java import IcebergJava, JavaObject
from tests.interop.spark_sql import SparkSql
from tests.lab.mirrored_world import MirroredWorld

SharedMirror = Callable[[Case], MirroredWorld]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scan_task_has_the_deletes_of_its_data_file(
    shared_mirror: SharedMirror, java: IcebergJava, case: Case
) -> None:
    """Each data file has its deletes, and none that apply to another file only."""
    world = shared_mirror(case)
    planned = java.plan(world.mirror)
    assert case.scattered or sum(map(len, planned.values())) >= 5
    for path, deletes in planned.items():
        for delete in deletes:
            referenced = deleted_files(delete.location())
            assert path in referenced or len(referenced) > 1
            assert java.referenced_file(delete) == (path if len(referenced) == 1 else None)


@pytest.mark.parametrize("case", V3_CASES, ids=str)
def test_data_file_has_at_most_one_deletion_vector(
    shared_mirror: SharedMirror, java: IcebergJava, case: Case
) -> None:
    world = shared_mirror(case)
    planned = java.plan(world.mirror)
    assert sum(map(len, planned.values())) >= 3
    for path, deletes in planned.items():
        assert len(deletes) <= 1
        for delete in deletes:
            assert java.is_vector(delete)
            assert java.referenced_file(delete) == path


def test_shared_delete_file_is_planned_for_each_of_its_data_files(tmp_path: Path, java: IcebergJava) -> None:
    """If one merge touches very many data files, they share a delete file."""
    tiny = (("write.target-file-size-bytes", "160"),)
    case = Case(
        "tiny_files", "int", ("text", "double"), (), 8, properties=tiny, distinct_keys=200, largest_commit=900
    )
    world = make_world(tmp_path, case, merges=0)
    planned: dict[str, list[JavaObject]] = {}
    shared: list[JavaObject] = []
    while not shared and len(snapshot_ids(world.mirror) if planned else ()) < 12:
        commit_and_merge(world)
        planned = java.plan(world.mirror)
        shared = [
            delete for deletes in planned.values() for delete in deletes if not java.is_file_scoped(delete)
        ]
    assert shared, f"{len(planned)} data files, none of which shares a delete file with another"
    named = {delete.location(): deleted_files(delete.location()) for delete in shared}
    assert max(map(len, named.values())) > 1
    for path, deletes in planned.items():
        attached = {delete.location() for delete in deletes}
        assert {location for location, paths in named.items() if path in paths} <= attached
    verdict = world.oracle.verdict_of_rows(java.rewrite(world.mirror).rows)
    assert verdict.equal, verdict


@pytest.mark.parametrize(
    "case", [case for cases in (CASES, V3_CASES) for case in cases if case.for_spark][:4], ids=str
)
def test_metadata_tables_are_consistent(shared_mirror: SharedMirror, java: IcebergJava, case: Case) -> None:
    world = shared_mirror(case)
    head = world.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    spark = SparkSql.on(java, world)
    snapshots = spark.query(f"SELECT * FROM {spark.mirror}.snapshots").sort_by("committed_at")
    assert snapshots["snapshot_id"].to_pylist() == snapshot_ids(world.mirror)
    assert set(snapshots["operation"].to_pylist()) == {"append", "overwrite"}

    files = spark.query(
        f"SELECT content, file_path, record_count, file_size_in_bytes FROM {spark.mirror}.files"
    )
    data = {row["file_path"]: row["record_count"] for row in files.to_pylist() if row["content"] == 0}
    deletes = spark.query(f"SELECT * FROM {spark.mirror}.delete_files").to_pylist()
    assert len(data) + len(deletes) == files.num_rows
    assert len(data) == int(head.summary["total-data-files"] or 0)
    assert len(deletes) == int(head.summary["total-delete-files"] or 0)
    for row in files.to_pylist():
        assert row["file_size_in_bytes"] == len(world.mirror.io.new_input(row["file_path"]))

    positions = spark.query(f"SELECT file_path, pos, delete_file_path FROM {spark.mirror}.position_deletes")
    found = positions.to_pylist()
    assert len({(row["file_path"], row["pos"]) for row in found}) == len(found), "no row is deleted twice"
    assert all(row["pos"] < data[row["file_path"]] for row in found)
    by_file = Counter(row["delete_file_path"] for row in found)
    record_counts: Counter[str] = Counter()
    for row in deletes:
        record_counts[row["file_path"]] += row["record_count"]
    assert by_file == record_counts
    assert len(found) == int(head.summary["total-position-deletes"] or 0)
    sizes = [row["content_size_in_bytes"] or row["file_size_in_bytes"] for row in deletes]
    data_sizes = [row["file_size_in_bytes"] for row in files.to_pylist() if row["content"] == 0]
    assert sum(sizes) + sum(data_sizes) == int(head.summary["total-files-size"] or 0)
    assert sum(data.values()) - len(found) == int(head.summary[PROPERTY_LIVE_ROWS] or 0)


def deleted_files(delete_file: str) -> set[str]:
    """Return the data files whose rows a delete file deletes."""
    return set(pq.read_table(delete_file.removeprefix("file://"))["file_path"].to_pylist())
