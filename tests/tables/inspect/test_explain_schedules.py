"""Over random schedules, the event that is said to have made a row is the one whose row the mirror has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_job.columns.json_values import row_as_json
from spark_job.engine.engine import InProcessEngine
from spark_job.inspect.explain.event_outcomes import EventOutcome
from spark_job.inspect.explain.explain_key import explain_key
from spark_job.inspect.explain.report import KeyState
from spark_job.worker.merge_table import merge_table
from tests.mirrors import MirroredWorld
from tests.oracle.key_pools import KEY_KINDS
from tests.oracle.schedules import Schedule


@pytest.mark.parametrize(
    ("seed", "kind", "batch"), [(1, "int", 25), (2, "uuid", 1000), (3, "composite", 40), (4, "string", 15)]
)
def test_the_verdict_is_the_mirrors(tmp_path: Path, seed: int, kind: str, batch: int) -> None:
    schedule = Schedule(seed, kind, distinct_keys=12, largest_commit=40)
    made = MirroredWorld.make(tmp_path, schedule, InProcessEngine(1), tail=f"batch_size: {batch}\n")
    keys = [name for name, _ in KEY_KINDS[kind].columns]
    asked: dict[str, None] = {}
    for commits in (3, 4, 2):
        made.world.commit_many(commits)
        for file in made.world.changelog.table.refresh().scan().to_arrow().to_batches():
            for at in range(file.num_rows):
                row = row_as_json(file.slice(at, 1).select(keys))
                asked[json.dumps(row)] = None
        merge_table(made.pipeline, made.table)
        _compare(made, keys, list(asked))
    made.world.commit_many(2)
    _compare(made, keys, list(asked))


def _compare(made: MirroredWorld, keys: list[str], asked: list[str]) -> None:
    rows = made.mirror.scan().to_arrow()
    there = {}
    for at in range(rows.num_rows):
        row = row_as_json(rows.slice(at, 1))
        there[json.dumps({name: row[name] for name in keys})] = row
    assert there.keys() <= set(asked)
    for key in asked:
        report = explain_key(made.pipeline, made.table, key)
        made_row = [one for one in report.events if one.fate is EventOutcome.WROTE_ROW]
        deleted = [one for one in report.events if one.fate is EventOutcome.DELETED_ROW]
        assert report.equal, report.findings
        if key in there:
            assert report.state is KeyState.PRESENT
            assert [one.values for one in made_row] == [there[key]]
            assert report.row is not None
            assert report.row.values == there[key]
            assert not deleted
        else:
            assert not made_row
            assert report.state is (KeyState.DELETED if deleted else KeyState.NEVER_SEEN)
