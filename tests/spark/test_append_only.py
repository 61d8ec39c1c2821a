"""Tables without a key on Spark, in one task or sharded by position: every row is merged once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark import SparkContext

from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine import size_policy
from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import SparkEngine
from tests.lab.append_only import APPEND_ONLY, SCHEMA, append_as_another_writer, event_file, rows
from tests.lab.lab import Lab


@pytest.mark.parametrize("one_task_events", [0, 1 << 40])
def test_every_row_is_merged_once(
    tmp_path: Path, spark: SparkContext, monkeypatch: pytest.MonkeyPatch, one_task_events: int
) -> None:
    monkeypatch.setattr(size_policy, "INSPECTION", SizePolicy())
    lab = Lab.make(
        tmp_path,
        SCHEMA,
        options=f"{APPEND_ONLY}\npartition_by: [name]",
        engine=SparkEngine(spark, SizePolicy(one_task_events=one_task_events)),
    )
    lab.commit(
        event_file(*((f"n{number % 7}", number % 50) for number in range(1000))),
        event_file(("a", 1), ("a", 1)),
    )
    lab.merge()
    lab.commit(event_file(("a", 1)))
    lab.merge()
    expected = Counter((f"n{number % 7}", number % 50) for number in range(1000)) + Counter({("a", 1): 3})
    assert rows(lab) == expected
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    append_as_another_writer(lab)
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert [(finding.kind.value, finding.count) for finding in report.findings] == [("surplus-row", 1)]
