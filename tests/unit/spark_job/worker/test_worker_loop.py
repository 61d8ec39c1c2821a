"""The worker loop: a real store, a scripted `advance`, and a clock that moves when the worker sleeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from icemirror.errors import Conflict, Invalid, Transient
from icemirror.protocol.events import (
    PauseRequested,
    WorkerId,
)
from icemirror.protocol.replay import Replay, ReplayProgress, ReplayStep
from icemirror.protocol.row_selection import RowSelection
from icemirror.protocol.rows import PlannedBacklog, Rows, SlotState
from icemirror.step_results import Backlog
from icemirror.stores.apply import apply
from icemirror.telemetry.redaction import forget_secrets, register_secret
from tests.unit.spark_job.worker.worker_bench import POLICY, POSITION, SLOT, UP_TO_DATE, Bench, slice_done


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.store.close()


def test_worker_merges_until_the_plan_is_empty_and_frees_its_slot(bench: Bench) -> None:
    bench.notice("t")
    bench.plans["t"] = [slice_done(), slice_done(7)]
    bench.run()
    row = bench.table()
    assert (row.dirty, row.covered, row.merged_head, row.position) == (1, 1, "m9", POSITION)
    assert row.last_run is not None
    assert (row.last_run.run_id, row.last_run.outcome, row.last_run.events) == ("run-1", "merged", 12)
    assert bench.results() == [("t", "merged", 2)]
    assert bench.rows().slots[SLOT].state is SlotState.FREE


def test_backlog_of_a_plan_is_reported_with_the_notices_before_it(bench: Bench) -> None:
    backlog, seen = Backlog(snapshots=1, events=5), list[object]()
    bench.notice("t")
    bench.plans["t"] = [slice_done(backlog=backlog), lambda: seen.append(bench.table().planned)]
    bench.run()
    assert (seen, bench.table().planned) == ([PlannedBacklog(backlog, 1)], None)


def test_one_worker_serves_all_tables_and_lingers_before_it_leaves(bench: Bench) -> None:
    bench.notice("a")
    bench.notice("b")
    began = bench.now
    bench.run()
    assert sorted(bench.calls) == ["a", "b"]
    assert bench.now - began >= 1.0


def test_lingering_worker_picks_new_work(bench: Bench) -> None:
    bench.notice("a")
    me, sleep = bench.launch(), bench.sleep

    def sleep_and_notice(seconds: float) -> None:
        sleep(seconds)
        if "b" not in bench.rows().tables:
            bench.notice("b")

    bench.sleep = sleep_and_notice  # type: ignore[method-assign]
    bench.run(me)
    assert bench.calls == ["a", "b"]


def test_notices_during_a_merge_are_not_covered_by_it(bench: Bench) -> None:
    bench.notice("t")
    bench.plans["t"] = [lambda: bench.notice("t"), UP_TO_DATE]
    bench.run()
    assert (bench.table().dirty, bench.table().covered) == (2, 2)
    assert [outcome for _, outcome, _ in bench.results()] == ["up-to-date", "up-to-date"]


def test_worker_whose_slot_is_taken_ends_without_changes(bench: Bench) -> None:
    bench.notice("t")
    me = bench.launch()
    bench.run(WorkerId(SLOT, me.gen - 1, "run-0"))
    assert bench.calls == []
    assert bench.rows().slots[SLOT].state is SlotState.LAUNCHING


def test_turn_ends_after_some_slices_if_other_tables_wait(bench: Bench) -> None:
    bench.notice("a")
    bench.now += 1
    bench.notice("b")
    bench.plans["a"] = [slice_done(), slice_done(), slice_done()]
    bench.run(max_slices_per_turn=2)
    assert bench.calls == ["a", "a", "b", "a", "a"]
    assert bench.results() == [("a", "merged", 2), ("b", "up-to-date", 0), ("a", "merged", 1)]


def test_long_backlog_is_reported_periodically(bench: Bench) -> None:
    bench.notice("a")
    bench.plans["a"] = [slice_done() for _ in range(5)]
    bench.run(max_slices_per_turn=2)
    assert bench.results() == [("a", "merged", 2), ("a", "merged", 2), ("a", "merged", 1)]


def test_failure_of_a_table_does_not_stop_other_tables(bench: Bench) -> None:
    bench.notice("bad")
    bench.notice("good")
    failure = Transient("storage did not answer")
    bench.plans["bad"] = [slice_done(), failure]
    bench.run()
    row = bench.table("bad")
    assert (row.failures, row.quarantined, row.owner) == (1, False, None)
    assert row.error is not None
    assert (row.error.kind, row.error.message) == ("transient", "storage did not answer")
    assert bench.table("good").covered == 1
    assert ("bad", "failed", 1) in bench.results()
    assert bench.reported == [failure]


def test_blocked_table_is_quarantined(bench: Bench) -> None:
    bench.notice("bad")
    bench.plans["bad"] = [Invalid("a key is NULL")]
    bench.run()
    assert bench.table("bad").quarantined


def test_unexpected_error_is_recorded_with_type_and_location_but_without_its_message(bench: Bench) -> None:
    bench.notice("bad")
    bench.plans["bad"] = [ZeroDivisionError("customer 4711")]
    bench.run()
    error = bench.table("bad").error
    assert error is not None
    assert error.kind == "unexpected"
    assert (bench.table("bad").failures, bench.table("bad").quarantined) == (1, False), "it is retried"
    assert error.message.startswith("unexpected ZeroDivisionError at ")
    assert error.message.endswith("; see the job's log")
    assert "4711" not in error.message


def test_secrets_are_not_stored_in_the_state(bench: Bench) -> None:
    bench.notice("bad")
    bench.plans["bad"] = [Transient("GET https://u:canary-secret@h failed")]
    register_secret("canary-secret")
    try:
        bench.run()
    finally:
        forget_secrets()
    error = bench.table("bad").error
    assert error is not None
    assert "canary-secret" not in error.message


def test_conflict_is_planned_again_and_is_not_a_failure(bench: Bench) -> None:
    bench.notice("t")
    bench.plans["t"] = [Conflict("the head moved"), slice_done()]
    bench.run()
    assert bench.calls == ["t", "t", "t"]
    assert bench.results() == [("t", "merged", 1)]
    assert bench.table().failures == 0


def test_repeated_conflicts_are_a_failure(bench: Bench) -> None:
    bench.notice("t")
    bench.plans["t"] = [Conflict("the head moved") for _ in range(9)]
    bench.run()
    assert len(bench.calls) == 3
    row = bench.table()
    assert (row.failures, row.error.kind if row.error else None) == (1, "conflict")


def test_paused_table_is_released_after_the_slice(bench: Bench) -> None:
    bench.notice("t")
    bench.plans["t"] = [
        lambda: apply(bench.store, PauseRequested(1.0, "t"), POLICY),
        slice_done(),
        slice_done(),
    ]
    bench.run()
    row = bench.table()
    assert (row.paused, row.owner, row.covered, row.failures) == (True, None, 0, 0)
    assert bench.results() == [("t", "merged", 1)]


def test_stopped_worker_finishes_its_slice_and_releases_everything(bench: Bench) -> None:
    bench.notice("t")
    bench.plans["t"] = [lambda: setattr(bench, "stopping", True), slice_done(), slice_done()]
    bench.run()
    assert bench.calls == ["t", "t"]
    assert (bench.table().owner, bench.table().failures) == (None, 0)
    assert bench.rows().slots[SLOT].state is SlotState.FREE


def test_worker_leaves_at_once_if_unknown_tables_are_due(bench: Bench) -> None:
    bench.notice("known")
    bench.notice("unknown")
    bench.tables = frozenset({"known"})
    began = bench.now
    bench.run()
    assert bench.calls == ["known"]
    assert bench.now - began < 1.0
    assert bench.rows().slots[SLOT].state is SlotState.FREE


def test_unavailable_state_is_retried(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.notice("t")
    me, load, failures = bench.launch(), bench.store.load, [Transient("locked"), Transient("locked")]

    def fail_first_loads(reads: RowSelection) -> Rows:
        if failures and bench.calls:
            raise failures.pop()
        return load(reads)

    monkeypatch.setattr(bench.store, "load", fail_first_loads)
    bench.tables = frozenset({"t"})
    bench.run(me)
    assert (failures, bench.table().covered) == ([], 1)


def test_result_that_cannot_be_recorded_does_not_stop_the_worker(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.notice("t")

    def refuse(_: object) -> None:
        raise Transient("disk full")

    monkeypatch.setattr(bench.store, "record_result", refuse)
    bench.run()
    assert bench.table().covered == 1


def test_replay_is_done_step_by_step_before_the_merge(bench: Bench) -> None:
    bench.request_replay("t", Replay("r1", bench.now))
    merged = slice_done().slice
    bench.replays = [
        ReplayStep(ReplayProgress(5, 9, 1, "half"), done=False, slice=merged, mirror_status=POSITION),
        ReplayStep(ReplayProgress(9, 9, 1, "all"), done=True),
    ]
    bench.run()
    assert bench.calls == ["t r1 ", "t r1 half", "t"]
    row = bench.table()
    assert (row.replay, row.dirty, row.covered) == (None, 1, 1)
    assert row.last_replay is not None
    assert (row.last_replay.outcome, row.last_replay.progress) == ("done", ReplayProgress(9, 9, 1, "all"))
    assert bench.results() == [("t", "merged", 1)]


def test_failed_replay_does_not_stop_the_merge(bench: Bench) -> None:
    bench.request_replay("t", Replay("r1", bench.now))
    bench.replays = [Invalid("no such snapshot")]
    bench.run()
    assert bench.calls == ["t r1 ", "t"]
    row = bench.table()
    assert (row.dirty, row.covered, row.quarantined, row.error) == (1, 1, False, None)
    assert row.last_replay is not None
    assert row.last_replay.error is not None
    assert row.last_replay.error.message == "no such snapshot"


def test_rebuild_is_reported_as_a_rebuild(bench: Bench) -> None:
    bench.request_replay("t", Replay("r1", bench.now, full=True))
    bench.replays = [ReplayStep(ReplayProgress(9, 9), done=True, mirror_status=POSITION, rebuilt=True)]
    bench.run()
    assert bench.results() == [("t", "rebuilt", 0)]
    run = bench.table().last_run
    assert run is not None
    assert (run.outcome, run.events) == ("rebuilt", 9)
