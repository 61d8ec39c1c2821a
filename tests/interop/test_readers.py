"""Every reader reads the oracle's rows from a mirror, at its head and at every earlier snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest

from icemirror.cli.demo.oracle.duckdb_oracle import connect_duckdb
from icemirror.cli.demo.oracle.mirror_readers import read_by_pyiceberg, read_cursor
from tests.interop.cases import CASES, V3_CASES, Case, snapshot_ids
from tests.interop.iceberg_java import IcebergJava
from tests.interop.spark_sql import SparkSql, with_uuids
from tests.lab.mirrored_world import MirroredWorld

SharedMirror = Callable[[Case], MirroredWorld]
ALL_CASES = (*CASES, *V3_CASES)
RowsAt = Iterable[tuple[int | None, pa.Table]]


def head_and_snapshots(world: MirroredWorld) -> list[int | None]:
    """Return None, for the head, and every snapshot id."""
    return [None, *snapshot_ids(world.mirror)]


def check(world: MirroredWorld, rows_at: RowsAt) -> None:
    """Compare a reader's rows with the oracle at the cursor of that snapshot."""
    seen = []
    for snapshot_id, rows in rows_at:
        verdict = world.oracle.verdict_of_rows(rows, read_cursor(world.mirror, snapshot_id))
        assert verdict.equal, f"snapshot {snapshot_id}: {verdict}"
        seen.append(snapshot_id)
    assert seen == head_and_snapshots(world)
    assert len(seen) > 3


@pytest.mark.parametrize("case", [case for case in ALL_CASES if case.for_pyiceberg], ids=str)
def test_pyiceberg_reads_the_rows_of_the_oracle(shared_mirror: SharedMirror, case: Case) -> None:
    world = shared_mirror(case)
    check(
        world,
        (
            (snapshot_id, read_by_pyiceberg(world.mirror, world.oracle.subject, snapshot_id))
            for snapshot_id in head_and_snapshots(world)
        ),
    )


@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_duckdb_reads_the_rows_of_the_oracle(shared_mirror: SharedMirror, case: Case) -> None:
    world = shared_mirror(case)
    with connect_duckdb(iceberg=True) as duck:

        def read(snapshot_id: int | None) -> pa.Table:
            option = "" if snapshot_id is None else f", snapshot_from_id = {snapshot_id}"
            query = f"FROM iceberg_scan('{world.mirror.metadata_location}'{option})"
            return duck.execute(query).to_arrow_table()

        check(world, ((snapshot_id, read(snapshot_id)) for snapshot_id in head_and_snapshots(world)))


@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_iceberg_java_reads_the_rows_of_the_oracle(
    shared_mirror: SharedMirror, java: IcebergJava, case: Case
) -> None:
    world = shared_mirror(case)
    check(
        world,
        (
            (snapshot_id, java.rewrite(world.mirror, snapshot_id).rows)
            for snapshot_id in head_and_snapshots(world)
        ),
    )


@pytest.mark.parametrize("case", [case for case in ALL_CASES if case.for_spark], ids=str)
def test_spark_reads_the_rows_of_the_oracle(
    shared_mirror: SharedMirror, java: IcebergJava, case: Case
) -> None:
    world = shared_mirror(case)
    rows = SparkSql.on(java, world).rows_at(head_and_snapshots(world))
    check(world, ((snapshot_id, with_uuids(table, world.mirror)) for snapshot_id, table in rows.items()))
