"""Adoption and deep verification of large tables on Spark have the same results as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from spark_job.commands.adopt.adopt_table import adopt_table
from spark_job.commands.verify.verify_report import FindingKind
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine import size_policy
from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import SparkEngine
from tests.lab.lab import Lab
from tests.lab.tables import add_rows, make_table


@pytest.mark.parametrize("one_task_events", [0, 1 << 40])
def test_table_is_adopted_merged_and_verified_on_spark(
    tmp_path: Path, spark: SparkContext, monkeypatch: pytest.MonkeyPatch, one_task_events: int
) -> None:
    monkeypatch.setattr(size_policy, "INSPECTION", SizePolicy())
    lab = Lab.make(tmp_path, engine=SparkEngine(spark, SizePolicy(one_task_events=one_task_events)))
    lab.commit_events(" ".join(f"I{key}@{key}=v" for key in range(1, 500)))
    lab.commit_events(" ".join(f"U{key}@{1000 + key}=w" for key in range(1, 500, 7)))
    rows = [(key, "w" if key % 7 == 1 else "v") for key in range(1, 500)]
    make_table(lab, rows[:200], rows[200:])
    adopt_table(lab.pipeline, lab.table, "head", dry_run=False)
    lab.commit_events("D1@5000 U2@1 I600@600=new")
    lab.merge()
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal, report
    assert (report.checked.rows, report.checked.entries) == (499, 501)
    add_rows(lab.mirror, [(1, "undead"), (700, "theirs"), (3, "double")])
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert {finding.kind: finding.count for finding in report.findings} == {
        FindingKind.DELETED_ROW: 1,
        FindingKind.FOREIGN_ROW: 1,
        FindingKind.DUPLICATE_KEY: 1,
        FindingKind.DIFFERENT_ROW: 1,
    }
