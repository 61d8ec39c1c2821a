"""For random schedules, the event reported as the writer of a row has the values of that row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_job.columns.json_values import row_as_json
from spark_job.commands.explain.event_outcomes import EventOutcome
from spark_job.commands.explain.explain_key import explain_key
from spark_job.commands.explain.report import KeyState
from spark_job.commands.merge_table import merge_table
from spark_job.engine.engine import InProcessEngine
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.key_pools import KEY_KINDS
from tests.oracle.schedules import Schedule


@pytest.mark.parametrize(
    ("seed", "kind", "batch"), [(1, "int", 25), (2, "uuid", 1000), (3, "composite", 40), (4, "string", 15)]
)
def test_reported_event_matches_the_mirror(tmp_path: Path, seed: int, kind: str, batch: int) -> None:
    schedule = Schedule(seed, kind, distinct_keys=12, largest_commit=40)
    mirrored = MirroredWorld.make(
        tmp_path, schedule, InProcessEngine(1), extra_config=f"batch_size: {batch}\n"
    )
    key_columns = [name for name, _ in KEY_KINDS[kind].columns]
    seen_keys: dict[str, None] = {}
    for commits in (3, 4, 2):
        mirrored.oracle.commit_many(commits)
        for file in mirrored.oracle.changelog.table.refresh().scan().to_arrow().to_batches():
            for at in range(file.num_rows):
                row = row_as_json(file.slice(at, 1).select(key_columns))
                seen_keys[json.dumps(row)] = None
        merge_table(mirrored.pipeline, mirrored.table)
        _compare(mirrored, key_columns, list(seen_keys))
    mirrored.oracle.commit_many(2)
    _compare(mirrored, key_columns, list(seen_keys))


def _compare(mirrored: MirroredWorld, key_columns: list[str], keys: list[str]) -> None:
    rows = mirrored.mirror.scan().to_arrow()
    rows_by_key = {}
    for at in range(rows.num_rows):
        row = row_as_json(rows.slice(at, 1))
        rows_by_key[json.dumps({name: row[name] for name in key_columns})] = row
    assert rows_by_key.keys() <= set(keys)
    for key in keys:
        report = explain_key(mirrored.pipeline, mirrored.table, key)
        writers = [event for event in report.events if event.fate is EventOutcome.WROTE_ROW]
        deletes = [event for event in report.events if event.fate is EventOutcome.DELETED_ROW]
        assert report.equal, report.findings
        if key in rows_by_key:
            assert report.state is KeyState.PRESENT
            assert [event.values for event in writers] == [rows_by_key[key]]
            assert report.row is not None
            assert report.row.values == rows_by_key[key]
            assert not deletes
        else:
            assert not writers
            assert report.state is (KeyState.DELETED if deletes else KeyState.NEVER_SEEN)
