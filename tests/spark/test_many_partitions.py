"""A sharded slice of a mirror with many partitions: hardly more files than partitions, and correct rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import SparkContext

from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import SparkEngine
from tests.lab.partitions import commit, count_files, in_order, make, partitions_by_key, scattered

PARTITIONS, ROWS = 400, 2000


@pytest.mark.parametrize("spread", [scattered, in_order])
def test_shards_do_not_multiply_the_files_of_many_partitions(
    tmp_path: Path, spark: SparkContext, spread: Callable[[int, int], list[int]]
) -> None:
    lab = make(tmp_path).reconfigure(
        "partition_by: [part]\ncompact: false", engine=SparkEngine(spark, SizePolicy(one_task_events=0))
    )
    parts = spread(ROWS, PARTITIONS)
    commit(lab, parts)
    lab.merge()
    assert len(set(parts)) <= count_files(lab) <= 1.25 * len(set(parts))
    assert partitions_by_key(lab) == dict(enumerate(parts))
