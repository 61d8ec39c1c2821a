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
from tests.mirrors import MirroredWorld

Made = Callable[[Case], MirroredWorld]
ALL_CASES = (*CASES, *V3_CASES)
RowsAt = Iterable[tuple[int | None, pa.Table]]


def moments(lab: MirroredWorld) -> list[int | None]:
    """The head, as None, and every snapshot."""
    return [None, *snapshot_ids(lab.mirror)]


def check(lab: MirroredWorld, rows_at: RowsAt) -> None:
    """Compare a reader's rows with the oracle at the cursor of that snapshot."""
    seen = []
    for at, rows in rows_at:
        verdict = lab.world.verdict_of_rows(rows, read_cursor(lab.mirror, at))
        assert verdict.equal, f"snapshot {at}: {verdict}"
        seen.append(at)
    assert seen == moments(lab)
    assert len(seen) > 3


@pytest.mark.parametrize("case", [case for case in ALL_CASES if case.for_pyiceberg], ids=str)
def test_pyiceberg_reads_what_was_mirrored(made: Made, case: Case) -> None:
    lab = made(case)
    check(lab, ((at, read_by_pyiceberg(lab.mirror, lab.world.subject, at)) for at in moments(lab)))


@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_duckdb_reads_what_was_mirrored(made: Made, case: Case) -> None:
    lab = made(case)
    with connect_duckdb(iceberg=True) as duck:

        def read(at: int | None) -> pa.Table:
            snapshot = "" if at is None else f", snapshot_from_id = {at}"
            query = f"FROM iceberg_scan('{lab.mirror.metadata_location}'{snapshot})"
            return duck.execute(query).to_arrow_table()

        check(lab, ((at, read(at)) for at in moments(lab)))


@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_iceberg_java_reads_what_was_mirrored(made: Made, java: IcebergJava, case: Case) -> None:
    lab = made(case)
    check(lab, ((at, java.rewrite(lab.mirror, at).rows) for at in moments(lab)))


@pytest.mark.parametrize("case", [case for case in ALL_CASES if case.for_spark], ids=str)
def test_spark_reads_what_was_mirrored(made: Made, java: IcebergJava, case: Case) -> None:
    lab = made(case)
    rows = SparkSql.on(java, lab).rows_at(moments(lab))
    check(lab, ((at, with_uuids(table, lab.mirror)) for at, table in rows.items()))
