"""Leases of a worker that runs a long slice, in real time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from icemirror.protocol.events import (
    RecoverSlot,
    RunState,
)
from icemirror.protocol.policy import Policy
from icemirror.stores.apply import apply
from tests.unit.spark_job.worker.worker_bench import POLICY, SLOT, UP_TO_DATE, Bench, slice_done


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.store.close()


def test_fenced_worker_stops_after_its_slice_and_changes_no_row(bench: Bench) -> None:
    bench.notice("t")
    bench.policy = Policy(quiet_seconds=0.0, lease_seconds=0.04)
    fenced = threading.Event()

    def lose_the_slot() -> None:
        slot = bench.rows().slots[SLOT]
        recovery = RecoverSlot(bench.now, SLOT, slot.gen, slot.run_id, RunState.ENDED, 0.0)
        apply(bench.store, recovery, POLICY)
        fenced.wait(0.3)  # several heartbeats

    bench.plans["t"] = [lose_the_slot, slice_done(), slice_done()]
    bench.run()
    assert bench.calls == ["t", "t"]
    assert bench.table().owner is not None, "the trigger releases the table of the ended owner later"


def test_lease_is_renewed_while_a_long_slice_runs(bench: Bench) -> None:
    bench.notice("t")
    bench.policy = Policy(quiet_seconds=0.0, lease_seconds=0.04)
    seen: list[float] = []
    pause = threading.Event()

    def long_slice() -> None:
        seen.append(bench.rows().slots[SLOT].lease_until)
        bench.now += 50.0
        pause.wait(0.3)
        seen.append(bench.rows().slots[SLOT].lease_until)

    bench.plans["t"] = [long_slice, UP_TO_DATE]
    bench.run()
    assert seen[1] - seen[0] == pytest.approx(50.0)
    assert bench.table().covered == 1
