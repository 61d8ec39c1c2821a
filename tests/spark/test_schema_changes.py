"""Schema changes merged by tasks: the mirror's new columns are sent with the work."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import IntegerType, LongType, StringType
from pyspark import SparkContext

from spark_job.columns.name_mapping import NAME_MAPPING
from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import SparkEngine
from tests.lab.column_changes import assert_sound, change_columns, commit_events, rows
from tests.lab.lab import Lab, changelog_schema


@pytest.mark.parametrize("one_task_events", [1_000_000, 0], ids=["one task", "sharded"])
def test_tasks_write_columns_that_their_commit_adds(
    tmp_path: Path, spark: SparkContext, one_task_events: int
) -> None:
    schema = changelog_schema(("id", IntegerType()), ("name", StringType()), ("n", IntegerType()))
    engine = SparkEngine(spark, SizePolicy(one_task_events=one_task_events))
    lab = Lab.make(tmp_path, schema, engine=engine)
    mapping = lab.changelog.schema().name_mapping.model_dump_json()
    with lab.changelog.transaction() as transaction:
        transaction.set_properties({NAME_MAPPING: mapping})
    commit_events(lab, *(f"I{key}@1" for key in range(50)), name="old", n=1)
    lab.merge()
    change_columns(
        lab,
        lambda to: to.rename_column("name", "title"),
        lambda to: to.update_column("n", LongType()),
        lambda to: to.update_column("id", LongType()),
        lambda to: to.add_column("more", LongType()),
    )
    commit_events(lab, *(f"U{key}@2" for key in range(25)), f"I{2**40}@2", title="new", n=2**40, more=7)
    lab.merge()
    found = {row["id"]: (row["title"], row["n"], row["more"]) for row in rows(lab)}
    new = dict.fromkeys((*range(25), 2**40), ("new", 2**40, 7))
    assert found == {**new, **dict.fromkeys(range(25, 50), ("old", 1, None))}
    assert_sound(lab)
