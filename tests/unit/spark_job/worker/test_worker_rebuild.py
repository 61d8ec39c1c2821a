"""A worker that rebuilds a table by policy: it yields to other tables and reports once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from icemirror.protocol.rows import PlannedBacklog
from icemirror.step_results import Backlog, Rebuilt, Staged
from tests.unit.spark_job.worker.worker_bench import POSITION, Bench, slice_done


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.store.close()


def test_rebuild_by_policy_yields_to_other_tables_and_is_reported_once(bench: Bench) -> None:
    backlog, seen = Backlog(snapshots=1, events=5), list[object]()
    staged = [Staged(events=events, of_events=5, backlog=backlog) for events in range(1, 6)]
    bench.notice("t")
    bench.notice("u")
    bench.plans["t"] = [
        staged[0],
        lambda: seen.append(bench.table().planned),
        *staged[1:],
        Rebuilt(events=5, mirror_status=POSITION),
        slice_done(7),
    ]
    bench.run(max_slices_per_turn=2)
    assert seen == [PlannedBacklog(backlog, 1)]
    assert "u" in bench.calls[:5], "a turn ends after some slices"
    outcomes = [outcome for table, outcome, _ in bench.results() if table == "t"]
    assert outcomes.count("rebuilt") == 1
    assert set(outcomes) <= {"merged", "rebuilt", "up-to-date"}
    row = bench.table()
    assert (row.dirty, row.covered, row.position) == (1, 1, POSITION)
