"""Adopting and deep verification on Spark, as large tables need it, give what they give in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from spark_job.adopt.adopt import adopt_table
from spark_job.runtime import little
from spark_job.runtime.engine import OnSpark
from spark_job.verify.check import Options, verify_table
from spark_job.verify.findings import Kind
from tests.unit.merge.lab import Lab
from tests.unit.merge.tables import add_rows, make_table


@pytest.mark.parametrize("one_task_events", [0, 1 << 40])
def test_a_table_is_adopted_merged_and_verified_on_spark(
    tmp_path: Path, spark: SparkContext, monkeypatch: pytest.MonkeyPatch, one_task_events: int
) -> None:
    monkeypatch.setattr(little, "_LITTLE_ROWS", -1)
    lab = Lab.make(tmp_path, engine=OnSpark(spark, one_task_events=one_task_events))
    lab.tell(" ".join(f"I{key}@{key}=v" for key in range(1, 500)))
    lab.tell(" ".join(f"U{key}@{1000 + key}=w" for key in range(1, 500, 7)))
    rows = [(key, "w" if key % 7 == 1 else "v") for key in range(1, 500)]
    make_table(lab, rows[:200], rows[200:])
    adopt_table(lab.pipeline, lab.table, "head", dry_run=False)
    lab.tell("D1@5000 U2@1 I600@600=new")
    lab.merge()
    report = verify_table(lab.pipeline, lab.table, Options(deep=True))
    assert report.equal, report
    assert (report.checked.rows, report.checked.entries) == (499, 501)
    add_rows(lab.mirror, [(1, "undead"), (700, "theirs"), (3, "double")])
    report = verify_table(lab.pipeline, lab.table, Options(deep=True))
    assert {one.kind: one.count for one in report.findings} == {
        Kind.DELETED_ROW: 1,
        Kind.FOREIGN_ROW: 1,
        Kind.DOUBLED_KEY: 1,
        Kind.DIFFERENT_ROW: 1,
    }
