"""Changes of slot rows: taking, launching, leases, recovery."""

from __future__ import annotations

from dataclasses import replace

import pytest

from icemirror.protocol.actions import Cancel, Idle, Launch, MergeTable, Released, SlotHeld, StopWorker
from icemirror.protocol.events import (
    Dispatch,
    Heartbeat,
    Leave,
    LingerPoll,
    Pick,
    RecoverSlot,
    Rescan,
    RunRecorded,
    RunState,
    SlotResumeRequested,
    Started,
)
from icemirror.protocol.policy import SKEW_SECONDS
from icemirror.protocol.rows import SlotId, SlotRow, SlotState, TableRow
from icemirror.protocol.slot_rules import MAX_WANTED
from icemirror.protocol.step import Step, step
from tests.unit.icemirror.protocol.samples import ME, POLICY, SLOT, dirty, owned, rows, slot

FREE, LAUNCHING = SlotState.FREE, SlotState.LAUNCHING
RUNNING, LINGERING = SlotState.RUNNING, SlotState.LINGERING
WORK = Dispatch(50.0, "default")
LEAVE = Leave(50.0, ME)
EXIT = Step(None, (StopWorker(),))


def slot_after(result: Step) -> SlotRow:
    assert isinstance(result.row, SlotRow)
    return result.row


def test_due_table_without_a_worker_launches_a_slot() -> None:
    result = step(rows(dirty(), slot(FREE, run_id=None)), WORK, POLICY)
    taken = slot_after(result)
    assert (taken.state, taken.gen, taken.run_id, taken.lease_until) == (LAUNCHING, 8, None, 60.0)
    assert result.actions == (Launch(SLOT, 8),)


def test_first_generation_is_the_clock_so_that_a_lost_state_repeats_no_token() -> None:
    assert slot_after(step(rows(dirty()), WORK, POLICY)).gen == 50_000
    assert slot_after(step(rows(dirty()), Dispatch(51.0, "default"), POLICY)).gen == 51_000


@pytest.mark.parametrize("state", [LAUNCHING, RUNNING, LINGERING])
def test_no_worker_is_launched_while_another_is_active(state: SlotState) -> None:
    two_slots = replace(POLICY, slots=2)
    assert step(rows(dirty(at=40.0), slot(state)), WORK, two_slots) == Step(None)


def test_worker_is_added_if_a_table_waited_long() -> None:
    two_slots = replace(POLICY, slots=2)
    busy = rows(dirty(at=0.0), slot(RUNNING))
    assert step(busy, WORK, two_slots).actions == (Launch(SlotId("default", 1), 50_000),)
    assert step(busy, WORK, POLICY) == Step(None)
    soon = rows(dirty(at=0.0), slot(LINGERING))
    assert step(soon, WORK, two_slots) == Step(None)


def test_no_worker_is_launched_for_tables_that_are_not_due_or_unknown() -> None:
    assert step(rows(dirty(at=49.0)), WORK, POLICY) == Step(None)
    assert step(rows(dirty()), Dispatch(50.0, "heavy"), POLICY) == Step(None)
    assert step(rows(dirty()), Dispatch(50.0, "default", frozenset({"other"})), POLICY) == Step(None)


def test_failed_slot_backs_off_and_a_quarantined_one_is_on_probation() -> None:
    failed = slot(FREE, failures=1, not_before=60.0)
    assert step(rows(dirty(), failed), WORK, POLICY) == Step(None)
    quarantined = slot(FREE, failures=3, quarantined=True, not_before=1000.0)
    assert step(rows(dirty(), quarantined), WORK, POLICY) == Step(None)
    assert step(rows(dirty(), quarantined), Dispatch(1000.0, "default"), POLICY).actions
    resumed = slot_after(step(rows(quarantined), SlotResumeRequested(5.0, SLOT), POLICY))
    assert (resumed.quarantined, resumed.failures, resumed.not_before) == (False, 0, 0.0)


def test_run_is_recorded_only_once_and_only_while_launching() -> None:
    launching = slot(LAUNCHING, run_id=None)
    recorded = slot_after(step(rows(launching), RunRecorded(5.0, SLOT, 7, "run-7"), POLICY))
    assert (recorded.state, recorded.run_id) == (LAUNCHING, "run-7")
    assert step(rows(recorded), RunRecorded(6.0, SLOT, 7, "run-b"), POLICY) == Step(None)
    assert step(rows(launching), RunRecorded(6.0, SLOT, 6, "run-6"), POLICY) == Step(None)
    assert step(rows(slot(RUNNING)), RunRecorded(6.0, SLOT, 7, "run-b"), POLICY) == Step(None)


def test_job_takes_its_slot_even_if_another_run_was_recorded() -> None:
    result = step(rows(slot(LAUNCHING, run_id="another")), Started(5.0, ME), POLICY)
    started = slot_after(result)
    assert (started.state, started.run_id, started.lease_until) == (RUNNING, "run-7", 105.0)
    assert result.actions == (SlotHeld(7),)


@pytest.mark.parametrize("state", [slot(FREE), slot(RUNNING, run_id="other"), slot(LAUNCHING, gen=8), None])
def test_job_ends_if_its_slot_does_not_expect_it(state: SlotRow | None) -> None:
    stored = rows(state) if state else rows()
    assert step(stored, Started(5.0, ME), POLICY) == EXIT


def test_unrecorded_launch_is_repeated_with_the_same_token_then_quarantined() -> None:
    row = slot(LAUNCHING, run_id=None, lease_until=10.0)
    early = RecoverSlot(9.0, SLOT, 7, None, RunState.UNKNOWN, 0.0)
    assert step(rows(row), early, POLICY) == Step(None)
    for now in (10.0, 20.0):
        result = step(rows(row), replace(early, now=now), POLICY)
        assert result.actions == (Launch(SLOT, 7),)
        row = slot_after(result)
    result = step(rows(row), replace(early, now=30.0), POLICY)
    assert (slot_after(result).state, slot_after(result).quarantined, result.actions) == (FREE, True, ())


def test_queued_run_keeps_its_slot() -> None:
    event = RecoverSlot(500.0, SLOT, 7, "run-7", RunState.QUEUED, 0.0)
    kept = slot_after(step(rows(slot(LAUNCHING)), event, POLICY))
    assert (kept.state, kept.gen, kept.lease_until, kept.failures) == (LAUNCHING, 7, 600.0, 0)


def test_run_that_ends_before_it_starts_frees_its_slot_and_counts_as_a_failure() -> None:
    event = RecoverSlot(5.0, SLOT, 7, "run-7", RunState.ENDED, 0.0)
    freed = slot_after(step(rows(slot(LAUNCHING)), event, POLICY))
    assert (freed.state, freed.run_id, freed.failures, freed.gen) == (FREE, None, 1, 7)


@pytest.mark.parametrize("state", [RUNNING, LINGERING])
def test_slot_is_freed_when_its_run_ended_or_its_lease_expired(state: SlotState) -> None:
    held = rows(slot(state))
    alive = RecoverSlot(99.0, SLOT, 7, "run-7", RunState.RUNNING, 0.0)
    assert step(held, alive, POLICY) == Step(None)
    ended = step(held, replace(alive, run=RunState.ENDED), POLICY)
    assert (slot_after(ended).state, slot_after(ended).failures, ended.actions) == (FREE, 1, ())
    silent = step(held, replace(alive, now=100.0), POLICY)
    assert (slot_after(silent).state, silent.actions) == (FREE, (Cancel("run-7"),))


def test_failure_counts_for_the_table_and_not_for_its_slot() -> None:
    event = RecoverSlot(5.0, SLOT, 7, "run-7", RunState.ENDED, 0.0)
    assert slot_after(step(rows(slot(RUNNING), owned()), event, POLICY)).failures == 0


def test_error_of_a_dead_job_names_its_log() -> None:
    event = RecoverSlot(5.0, SLOT, 7, "run-7", RunState.ENDED, 0.0, "/logs/a.log")
    launching = slot_after(step(rows(slot(LAUNCHING)), event, POLICY))
    assert launching.error == "a job ended before it took a table; see /logs/a.log"
    lingering = slot_after(step(rows(slot(LINGERING)), event, POLICY))
    assert lingering.error == "a job ended unexpectedly between two tables; see /logs/a.log"


def test_recovery_based_on_an_older_row_changes_nothing() -> None:
    ended = RecoverSlot(5.0, SLOT, 6, "run-6", RunState.ENDED, 0.0)
    assert step(rows(slot(RUNNING)), ended, POLICY) == Step(None)
    assert step(rows(slot(RUNNING)), replace(ended, gen=7), POLICY) == Step(None)


def test_heartbeat_renews_the_lease_with_few_writes() -> None:
    held = rows(slot(RUNNING, lease_until=100.0))
    assert step(held, Heartbeat(5.0, ME), POLICY) == Step(None, (SlotHeld(7),))
    assert slot_after(step(held, Heartbeat(25.0, ME), POLICY)).lease_until == 125.0
    assert step(rows(slot(RUNNING, gen=8)), Heartbeat(5.0, ME), POLICY) == EXIT
    assert step(rows(slot(RUNNING, run_id="other")), Heartbeat(5.0, ME), POLICY) == EXIT
    assert step(rows(slot(FREE)), Heartbeat(5.0, ME), POLICY) == EXIT


def test_worker_resets_the_failures_of_its_slot_after_a_turn() -> None:
    held = rows(slot(RUNNING, failures=2, error="x"))
    assert step(held, Heartbeat(1.0, ME), POLICY).row is None
    assert slot_after(step(held, Heartbeat(1.0, ME, has_had_turn=True), POLICY)).failures == 0


def test_worker_picks_the_table_that_waits_longest() -> None:
    stored = rows(slot(RUNNING), dirty("b", at=1.0), dirty("a", at=3.0))
    result = step(stored, Pick(50.0, ME), POLICY)
    assert isinstance(result.row, TableRow)
    assert (result.row.name, result.row.owner) == ("b", ME.owner)
    assert result.actions == (MergeTable("b", 1),)


def test_idle_worker_lingers_until_a_table_is_due() -> None:
    result = step(rows(slot(RUNNING, failures=1), dirty(at=49.0)), Pick(50.0, ME), POLICY)
    assert (slot_after(result).state, slot_after(result).failures) == (LINGERING, 0)
    assert result.actions == (Idle(51.0),)
    assert step(rows(slot(RUNNING, gen=8)), Pick(50.0, ME), POLICY) == EXIT


def test_lingering_worker_resumes_for_due_tables_and_reports_unknown_ones() -> None:
    result = step(rows(slot(LINGERING), dirty()), LingerPoll(50.0, ME), POLICY)
    assert (slot_after(result).state, result.actions) == (RUNNING, (SlotHeld(7),))
    result = step(rows(slot(LINGERING), dirty()), LingerPoll(50.0, ME, frozenset({"other"})), POLICY)
    assert result.actions == (Idle(None, unknown_tables_due=True),)
    assert step(rows(slot(FREE)), LingerPoll(50.0, ME), POLICY) == EXIT


def test_leaving_worker_scans_once_more_and_returns_as_a_new_generation() -> None:
    left = step(rows(slot(LINGERING)), Leave(50.0, ME), POLICY)
    assert left.actions == (Released(),)
    freed = slot_after(left)
    assert (freed.state, freed.run_id, freed.gen) == (FREE, None, 7)
    assert step(rows(freed), Rescan(51.0, ME), POLICY) == EXIT
    back = step(rows(freed, dirty()), Rescan(51.0, ME), POLICY)
    assert (slot_after(back).state, slot_after(back).gen, slot_after(back).run_id) == (RUNNING, 8, "run-7")
    assert back.actions == (SlotHeld(8),)
    assert step(rows(replace(freed, gen=9), dirty()), Rescan(51.0, ME), POLICY) == EXIT
    assert step(rows(slot(LAUNCHING), dirty()), Rescan(51.0, ME), POLICY) == EXIT
    assert step(rows(slot(RUNNING, gen=8)), Leave(50.0, ME), POLICY) == EXIT


def test_slot_lists_the_tables_of_its_launch_until_its_worker_leaves() -> None:
    waiting = [dirty(name, at=at) for name, at in (("b", 1.0), ("a", 3.0), ("late", 49.5))]
    taken = slot_after(step(rows(*waiting), WORK, POLICY))
    assert (taken.launched_at, taken.wanted) == (50.0, ("b", "a"))
    assert (
        slot_after(step(rows(replace(taken, state=RUNNING, gen=7, run_id="run-7")), LEAVE, POLICY)).wanted
        == ()
    )
    many = slot_after(step(rows(*(dirty(f"t{number}") for number in range(500))), WORK, POLICY))
    assert len(many.wanted) == MAX_WANTED


def test_idle_action_lists_wanted_tables_missing_from_the_workers_configuration() -> None:
    held = slot(LINGERING, launched_at=40.0, wanted=("a", "b"))
    waiting = [dirty(name, at=30.0) for name in ("a", "b", "c")]
    result = step(rows(held, *waiting), LingerPoll(50.0, ME, frozenset({"other"})), POLICY)
    assert result.actions == (Idle(None, unknown_tables_due=True, unknown_tables=("a", "b")),)
    taken = [waiting[2], replace(waiting[0], paused=True), replace(waiting[1], not_before=60.0)]
    result = step(rows(held, *taken), LingerPoll(50.0, ME, frozenset({"other"})), POLICY)
    assert result.actions == (Idle(None),), "the waiting table is old, and no worker was launched for it"
    result = step(rows(held, dirty("c", at=41.0)), LingerPoll(50.0, ME, frozenset({"other"})), POLICY)
    assert result.actions == (Idle(None, unknown_tables_due=True),), "it was noticed since the launch"


def test_worker_with_a_slow_clock_starts_at_its_launch_time() -> None:
    result = step(rows(slot(LAUNCHING, launched_at=700.0)), Started(5.0, ME), POLICY)
    assert (slot_after(result).lease_until, result.actions) == (800.0, (SlotHeld(7, 700.0),))


FAR_AHEAD = 1e9


def test_back_off_by_a_clock_far_ahead_does_not_block_the_slot() -> None:
    for failed in (slot(FREE, not_before=FAR_AHEAD), slot(FREE, not_before=FAR_AHEAD, quarantined=True)):
        assert step(rows(dirty(), failed), WORK, POLICY).actions


def test_unrecorded_launch_by_a_clock_far_ahead_is_repeated_with_the_same_token() -> None:
    seen = RecoverSlot(50.0, SLOT, 7, None, RunState.UNKNOWN, 0.0)
    launching = slot(LAUNCHING, run_id=None, lease_until=FAR_AHEAD)
    assert step(rows(launching), seen, POLICY).actions == (Launch(SLOT, 7),)
    soon = 50.0 + POLICY.launch_lease_seconds + SKEW_SECONDS
    assert step(rows(replace(launching, lease_until=soon)), seen, POLICY) == Step(None)


@pytest.mark.parametrize("state", [RUNNING, LINGERING])
def test_lease_by_a_clock_far_ahead_is_cut_and_the_worker_kept(
    state: SlotState,
) -> None:
    seen = RecoverSlot(50.0, SLOT, 7, "run-7", RunState.UNKNOWN, 0.0)
    cut = slot_after(step(rows(slot(state, lease_until=FAR_AHEAD)), seen, POLICY))
    ends_at = 50.0 + POLICY.lease_seconds + SKEW_SECONDS
    assert (cut.state, cut.run_id, cut.lease_until) == (state, "run-7", ends_at)
    assert step(rows(cut), seen, POLICY) == Step(None), "the lease is cut once"
    assert slot_after(step(rows(cut), replace(seen, now=ends_at), POLICY)).state is FREE


def test_busy_worker_yields_to_an_unknown_table_with_the_longest_wait() -> None:
    held = slot(RUNNING, launched_at=5.0)
    known, young, names = dirty("known", at=45.0), dirty("young", at=6.0), frozenset({"known"})
    result = step(rows(held, known, young), Pick(50.0, ME, names), POLICY)
    assert (slot_after(result).state, result.actions) == (LINGERING, (Idle(47.0, unknown_tables_due=True),))
    lingering = rows(replace(held, state=LINGERING), known, young)
    assert step(lingering, LingerPoll(50.0, ME, names), POLICY).actions == (
        Idle(47.0, unknown_tables_due=True),
    )
    freed = rows(replace(held, state=FREE, run_id=None), known, young)
    assert step(freed, Rescan(50.0, ME, names), POLICY) == EXIT, "the next generation is different"


@pytest.mark.parametrize(
    ("held", "known", "young"),
    [
        (
            slot(RUNNING, launched_at=5.0),
            dirty("known", at=1.0),
            dirty("young", at=6.0),
        ),  # the known table waits longer
        (slot(RUNNING, launched_at=5.0), dirty("known", at=45.0), dirty("young", at=30.0)),  # a short wait
        (
            slot(RUNNING, launched_at=7.0),
            dirty("known", at=45.0),
            dirty("young", at=6.0),
        ),  # noticed before the launch
        (slot(RUNNING, launched_at=5.0, wanted=("young",)), dirty("known", at=45.0), dirty("young", at=6.0)),
    ],
)
def test_old_rows_of_unknown_tables_do_not_replace_a_worker(
    held: SlotRow, known: TableRow, young: TableRow
) -> None:
    result = step(rows(held, known, young), Pick(50.0, ME, frozenset({"known"})), POLICY)
    assert result.actions == (MergeTable("known", 1),)
