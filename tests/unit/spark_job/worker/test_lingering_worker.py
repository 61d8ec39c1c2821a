"""A lingering worker reads the state rarely."""

from __future__ import annotations

from pathlib import Path

import pytest

from icemirror.protocol.row_selection import RowSelection
from icemirror.protocol.rows import Rows
from icemirror.protocol.worker import MAX_POLL_SECONDS
from tests.unit.spark_job.worker.worker_bench import UP_TO_DATE, Bench


def test_lingering_worker_reads_rarely_and_picks_new_work_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.notice("a")
    me, load, loads, sleep = bench.launch(), bench.store.load, list[float](), bench.sleep
    noticed_at = list[float]()

    def count_loads(reads: RowSelection) -> Rows:
        loads.append(bench.now)
        return load(reads)

    def sleep_and_notice(seconds: float) -> None:
        sleep(seconds)
        if bench.now > 1050.0 and not noticed_at:
            noticed_at.append(bench.now)
            bench.notice("b")

    monkeypatch.setattr(bench.store, "load", count_loads)
    monkeypatch.setattr(bench, "sleep", sleep_and_notice)
    bench.tables, bench.linger_seconds = frozenset({"a", "b"}), 60.0
    bench.plans["b"] = [lambda: noticed_at.append(bench.now), UP_TO_DATE]
    bench.run(me)
    bench.store.close()
    assert noticed_at[0] == noticed_at[1], "at once"
    polls = [time for time in loads if 1001.0 < time < 1050.0]
    assert 49 / MAX_POLL_SECONDS - 1 <= len(polls) <= 49 / MAX_POLL_SECONDS + 2
