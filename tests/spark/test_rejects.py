"""Bad rows on Spark: found in tasks and rejected by the driver, in one task and sharded by key."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from icemirror.errors import Kind
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.size_policy import SizePolicy
from spark_job.engine.spark_engine import SparkEngine
from tests.lab.bad_rows import bad_events, make, rejects

_ALL = 1 << 40
_MODES = {"one task": _ALL, "sharded": 0}
_FILES, _EVENTS = 4, 3000
_BAD = ("I?@8=bad", "_8@8=bad", "X8@8=bad", "U8@?=bad", "U8@!=bad")


@pytest.mark.parametrize("key", ["id", "id, name"])
@pytest.mark.parametrize("mode", _MODES)
def test_bad_rows_of_every_task_are_rejected(
    tmp_path: Path, spark: SparkContext, mode: str, key: str
) -> None:
    engine = SparkEngine(spark, SizePolicy(one_task_events=_MODES[mode], one_task_bytes=_ALL))
    lab = make(tmp_path, f"primary_keys: [{key}]", engine=engine)
    files = [
        [
            f"I{number}@{file + 1}=v{number}" if number % 10 else _BAD[number // 10 % len(_BAD)]
            for number in range(_EVENTS)
        ]
        for file in range(_FILES)
    ]
    lab.commit(*(bad_events(" ".join(words)) for words in files))
    (slice_result,) = lab.merge().slices
    bad = sum(word.endswith("bad") for words in files for word in words)
    assert (slice_result.rejected, slice_result.events) == (bad, _FILES * _EVENTS)
    rows = rejects(lab).scan().to_arrow()
    positions = set(
        zip(rows["icemirror_file"].to_pylist(), rows["icemirror_position"].to_pylist(), strict=True)
    )
    assert (rows.num_rows, len(positions)) == (bad, bad)
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal
    assert {f"v{number}" for number in range(_EVENTS) if number % 10} <= set(
        lab.mirror.scan().to_arrow()["name"].to_pylist()
    )


def test_too_many_bad_rows_stop_the_merge_with_a_specific_error(tmp_path: Path, spark: SparkContext) -> None:
    lab = make(tmp_path, engine=SparkEngine(spark, SizePolicy(one_task_events=0, one_task_bytes=_ALL)))
    lab.commit(bad_events(" ".join(f"X{number}@1" for number in range(2000))))
    failed = lab.try_merge()
    assert failed.error is not None
    assert failed.error.kind is Kind.INVALID
    assert "2,000 of the next 2,000 events cannot be merged" in failed.error.message
