"""Tables without a key on Spark, in one task or sharded by place: every row once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark import SparkContext

from spark_job.engine import size_policy
from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import SparkEngine
from spark_job.inspect.verify.verify_table import VerifyOptions, verify_table
from tests.lab.lab import Lab
from tests.tables.merge.test_append_only import ON, SCHEMA, append_by_others, rows, told


@pytest.mark.parametrize("one_task_events", [0, 1 << 40])
def test_every_row_is_there_once(
    tmp_path: Path, spark: SparkContext, monkeypatch: pytest.MonkeyPatch, one_task_events: int
) -> None:
    monkeypatch.setattr(size_policy, "INSPECTION", SizePolicy())
    lab = Lab.make(
        tmp_path,
        SCHEMA,
        options=f"{ON}\npartition_by: [name]",
        engine=SparkEngine(spark, SizePolicy(one_task_events=one_task_events)),
    )
    lab.commit(told(*((f"n{at % 7}", at % 50) for at in range(1000))), told(("a", 1), ("a", 1)))
    lab.merge()
    lab.commit(told(("a", 1)))
    lab.merge()
    expected = Counter((f"n{at % 7}", at % 50) for at in range(1000)) + Counter({("a", 1): 3})
    assert rows(lab) == expected
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    append_by_others(lab)
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert [(one.kind.value, one.count) for one in report.findings] == [("surplus-row", 1)]
