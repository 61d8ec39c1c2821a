"""Recorded changelogs of real sources, merged on Spark: in one task, and sharded."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import SparkEngine
from tests.lab import truncations
from tests.tables.profiles.debezium import TEXT_KEY, Source
from tests.tables.profiles.recording import Recording, mirror_rows

MODES = pytest.mark.parametrize("one_task_events", [1_000_000, 1], ids=["one task", "sharded"])


@MODES
@pytest.mark.parametrize("name", ["debezium-postgres", "debezium-before", "kafka-connect", "dms"])
def test_recorded_changelog_is_mirrored(
    tmp_path: Path, spark: SparkContext, name: str, one_task_events: int
) -> None:
    recording = Recording.load(name)
    lab = recording.lab(tmp_path, engine=SparkEngine(spark, SizePolicy(one_task_events=one_task_events)))
    for rows in recording.commits:
        lab.commit(*(recording.file([row]) for row in rows))
        lab.merge()
    assert mirror_rows(lab, recording.keys) == recording.expected(lab)
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings


@MODES
def test_values_and_keys_move_across_shards(
    tmp_path: Path, spark: SparkContext, one_task_events: int
) -> None:
    """Each row gets a new key and is then partially updated, in the same slice and in the next."""
    source = Source(
        tmp_path, schema=TEXT_KEY, engine=SparkEngine(spark, SizePolicy(one_task_events=one_task_events))
    )
    keys = range(200)
    source.commit(*(source.row(key, 1, "a", f"body {key}", op="c") for key in keys))
    source.lab.merge()
    moved = [source.row(key + 1000, 2, "b", f"body {key}", before=key) for key in keys]
    source.lab.commit(source.file(*moved), source.file(*(source.row(key + 1000, 3, "c") for key in keys)))
    source.lab.merge()
    source.commit(*(source.row(key + 1000, 4, "d") for key in keys if key % 2))
    source.lab.merge()
    assert source.rows() == {key + 1000: ("d" if key % 2 else "c", f"body {key}") for key in keys}


@MODES
def test_truncate_event_is_applied_by_a_task(
    tmp_path: Path, spark: SparkContext, one_task_events: int
) -> None:
    engine = SparkEngine(spark, SizePolicy(one_task_events=one_task_events))
    lab = truncations.make(tmp_path, batch=100, engine=engine)
    truncations.commit_events(lab, " ".join(f"I{key}@1" for key in range(60)))
    lab.merge()
    truncations.commit_events(lab, " ".join(f"U{key}@3" for key in range(40)), "T@4 I7@5=n I8@2")
    assert lab.merge().outcome == "rebuilt"
    assert lab.rows() == {7: "n"}
    truncations.commit_events(lab, " ".join(f"U{key}@3" for key in range(40)), "I9@6=n")
    (merged,) = lab.merge().slices
    assert (merged.inserted, merged.stale) == (1, 40)
    assert lab.rows() == {7: "n", 9: "n"}
