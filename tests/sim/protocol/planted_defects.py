"""Defects that the model check must detect: otherwise a passing check would prove nothing.

Each is planted in the model, never in the product: as a rule that replaces `step`, or as a flaw of the world. `why` is
the violation that the check must report.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from icemirror.protocol.actions import Launch, Released, SlotHeld
from icemirror.protocol.events import (
    Completed,
    Declined,
    Dispatch,
    Event,
    HeadRead,
    Pick,
    RecoverSlot,
    RecoverTable,
    ResumeRequested,
    RunRecorded,
    RunState,
    Started,
    TurnEnded,
)
from icemirror.protocol.policy import Policy
from icemirror.protocol.rows import Rows, SlotRow, SlotState, TableRow
from icemirror.protocol.step import Step, step
from tests.sim.protocol import planted_replay
from tests.sim.protocol.model import Model

Rule = Callable[[Rows, Event, Policy], Step]


@dataclass(frozen=True)
class ModelDefect:
    """A defect, the bounds within which it shows, and the violation that it causes."""

    why: str
    bounds: dict[str, Any] = field(default_factory=dict)
    rule: Rule | None = None

    def model(self, name: str) -> Model:
        """Return the model with the defect; a flaw of the world has the name of the defect."""
        return Model(**self.bounds, rule=self.rule or step, flaw="" if self.rule else name)


def _new_token(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case RecoverSlot(), Step(SlotRow() as row, (Launch(slot, gen),)):
            return Step(replace(row, gen=gen + 1), (Launch(slot, gen + 1),))
    return result


def _no_new_gen(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case Dispatch(), Step(SlotRow() as row, (Launch(slot, _),)):
            gen = rows.slot(slot).gen or row.gen
            return Step(replace(row, gen=gen), (Launch(slot, gen),))
    return result


def _any_owner_completes(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, Completed):
        row = replace(rows.table(event.table), owner=event.worker.owner)
        return step(Rows({**rows.tables, event.table: row}, rows.slots), event, policy)
    return step(rows, event, policy)


def _free_slot_of_queued_run(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, RecoverSlot) and event.run is RunState.QUEUED:
        event = replace(event, run=RunState.ENDED)
    return step(rows, event, policy)


def _relaunch_dead_run(rows: Rows, event: Event, policy: Policy) -> Step:
    match event:
        case RecoverSlot(_, slot, gen, str(), RunState.ENDED) if rows.slot(slot).state is SlotState.LAUNCHING:
            return Step(None, (Launch(slot, gen),))
    return step(rows, event, policy)


def _start_by_gen(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, Started):
        row = rows.slot(event.worker.slot)
        if row.gen == event.worker.gen and row.state is not SlotState.FREE:
            started = replace(row, state=SlotState.RUNNING, run_id=event.worker.run_id, lease_until=1.0)
            return Step(started, (SlotHeld(row.gen),))
    return step(rows, event, policy)


def _record_blindly(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, RunRecorded):
        row = rows.slot(event.slot)
        return Step(replace(row, state=SlotState.RUNNING, run_id=event.run_id, lease_until=1.0))
    return step(rows, event, policy)


def _no_charge_for_death(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case RecoverTable(_, name), Step(TableRow() as row):
            return Step(replace(row, failures=rows.table(name).failures, quarantined=False, not_before=1.0))
    return result


def _no_charge_for_launch(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case RecoverSlot(_, slot, _, str()), Step(SlotRow() as row) if (
            rows.slot(slot).state is SlotState.LAUNCHING
        ):
            failures = rows.slot(slot).failures
            return Step(replace(row, failures=failures, quarantined=False, not_before=0.0))
    return result


def _release_table_of_live_owner(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, RecoverTable):
        return step(Rows(rows.tables, {}), event, policy)
    return step(rows, event, policy)


def _pick_owned(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, Pick):
        free = {name: replace(row, owner=None) for name, row in rows.tables.items()}
        return step(Rows(free, rows.slots), event, policy)
    return step(rows, event, policy)


def _no_charge_for_unanswered_launch(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case RecoverSlot(_, slot, _, None), Step(SlotRow() as row):
            kept = replace(rows.slot(slot), lease_until=row.lease_until)
            return Step(kept, (Launch(slot, kept.gen),))
    return result


def _turn_covers(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case TurnEnded(), Step(TableRow() as row, (Released(),)):
            return Step(replace(row, covered=row.dirty), result.actions)
    return result


def _no_recheck(rows: Rows, event: Event, policy: Policy) -> Step:
    return step(rows, event, replace(policy, recheck_seconds=math.inf))


def _resume_without_notice(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case ResumeRequested(_, name), Step(TableRow() as row):
            return Step(replace(row, dirty=rows.table(name).dirty))
    return result


def _trust_merged_head(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, HeadRead) and rows.table(event.table).dirty == rows.table(event.table).covered:
        row = replace(rows.table(event.table), noticed_head=None)
        return step(Rows({**rows.tables, event.table: row}, rows.slots), event, policy)
    return step(rows, event, policy)


def _no_charge_for_declined_table(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, Declined):
        return Step(None, (Released(),))
    return step(rows, event, policy)


def _forget_wanted_tables(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case Dispatch(), Step(SlotRow() as row, actions):
            return Step(replace(row, wanted=()), actions)
    return result


def _decline_releases_the_table(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, Declined):
        row = replace(rows.table(event.table), owner=None)
        return step(Rows({**rows.tables, event.table: row}, rows.slots), event, policy)
    return step(rows, event, policy)


S1 = "S1 cursor moves back"
S2_SLOT = "S2 healthy worker lost its slot"
S2_TABLE = "S2 healthy worker works on a table that it does not own"
S3 = "S3 more runs than slots"
S4 = "S4 covered claims an unmerged commit"
S5_LOST = "S5 a replay is lost"
S5_UNSEEN = "S5 a replay waits unseen"
S5_PROGRESS = "S5 a replay continues from the progress of another"
S6_PAUSED = "S6 a paused table is worked on"
S6_QUARANTINED = "S6 a quarantined table is taken"
S6_NOT_LIFTED_BY_USER = "S6 a quarantine ends by itself"
S6_RESUMED = "S6 a table that was resumed is not taken"
L1 = "L1 work lost or stuck"
L2_LAUNCHES = "L2 launches forever"
L2 = "L2 livelock"

PLANTED: dict[str, ModelDefect] = {
    "dirty read after the merge": ModelDefect(S4, {"commit": 2}),
    "terminal run advances covered": ModelDefect(S4, {"commit": 1, "crash": 1}),
    "no scan after freeing the slot": ModelDefect(L1, {"sweep": False, "commit": 2}),
    "recovery with a new token": ModelDefect(S3, {"commit": 1}, _new_token),
    "no gen bump when a slot is taken": ModelDefect(L2, {"commit": 2, "crash": 1}, _no_new_gen),
    "acknowledge before notice": ModelDefect(L1, {"repair": False, "commit": 1, "wcrash": 1}),
    "no repair of lost hints": ModelDefect(L1, {"repair": False, "commit": 1, "lose": 1}),
    "complete without owner check": ModelDefect(
        S2_TABLE, {"commit": 2, "zombie": 1, "slots": 2, "eager": True, "triggers": 1}, _any_owner_completes
    ),
    "no mirror fence": ModelDefect(S1, {"commit": 2, "zombie": 1}),
    "head loaded before locating": ModelDefect(S1, {"commit": 2, "zombie": 1}),
    "queued run freed on lease expiry": ModelDefect(S3, {"commit": 1}, _free_slot_of_queued_run),
    "dead run launched again with its token": ModelDefect(
        L2, {"commit": 1, "nostart": 1}, _relaunch_dead_run
    ),
    "start fenced by gen only": ModelDefect(S2_SLOT, {"commit": 1, "forget": 1}, _start_by_gen),
    "slot polled by token, not run id": ModelDefect(S2_SLOT, {"commit": 1, "forget": 1}),
    "record without compare-and-set": ModelDefect(S2_SLOT, {"commit": 1}, _record_blindly),
    "dead owner not charged": ModelDefect(
        L2_LAUNCHES,
        {"tables": 2, "commit": 2, "limit": 2, "poison": "kill", "triggers": 1},
        _no_charge_for_death,
    ),
    "dead launch not charged": ModelDefect(
        L2_LAUNCHES, {"commit": 1, "limit": 2, "poison": "nostart"}, _no_charge_for_launch
    ),
    "a living owner loses its table": ModelDefect(S2_TABLE, {"commit": 1}, _release_table_of_live_owner),
    "a table is picked although it has an owner": ModelDefect(
        S2_TABLE, {"commit": 1, "slots": 2, "eager": True}, _pick_owned
    ),
    "unanswered launch not charged": ModelDefect(
        L2, {"commit": 1, "limit": 2, "poison": "noanswer"}, _no_charge_for_unanswered_launch
    ),
    "a noticed head is compared by its location in the job": ModelDefect(
        L2, {"commit": 1, "two_names": True}, _trust_merged_head
    ),
    "a merged table is never rechecked": ModelDefect(L1, {"commit": 1, "rollback": 1}, _no_recheck),
    "resume is no notice": ModelDefect(S4, {"commit": 1, "rollback": 1, "resume": 1}, _resume_without_notice),
    "a turn that ends early covers its notices": ModelDefect(
        S4, {"commit": 3, "tables": 2, "short_turns": True, "triggers": 1}, _turn_covers
    ),
    "a request for a replay is no notice": ModelDefect(
        S5_UNSEEN, {"replay": 1}, planted_replay.request_without_notice
    ),
    "a second request replaces the first": ModelDefect(
        S5_LOST, {"replay": 2}, planted_replay.second_request_replaces_the_first
    ),
    "any completed replay ends the pending request": ModelDefect(
        S5_LOST, {"replay": 2, "cancel": 1, "triggers": 1}, planted_replay.any_report_ends_the_replay
    ),
    "progress of one request counts for the next": ModelDefect(
        S5_PROGRESS, {"replay": 2, "cancel": 1, "triggers": 1}, planted_replay.any_progress_counts
    ),
    "an empty plan ends the replay": ModelDefect(
        S5_LOST, {"commit": 1, "replay": 1, "triggers": 1}, planted_replay.empty_plan_ends_the_replay
    ),
    "an empty plan covers the replay": ModelDefect(
        S5_UNSEEN, {"commit": 1, "replay": 1, "triggers": 1}, planted_replay.empty_plan_covers_the_replay
    ),
    "a dead owner drops the replay": ModelDefect(
        S5_LOST, {"replay": 1, "crash": 1}, planted_replay.death_drops_the_replay
    ),
    "a failure drops the replay": ModelDefect(
        S5_LOST, {"replay": 1, "fail": 1}, planted_replay.failure_drops_the_replay
    ),
    "a replay that always fails is never given up": ModelDefect(
        L2,
        {"replay": 1, "limit": 2, "poison": "replay raises", "triggers": 1},
        planted_replay.replay_never_given_up,
    ),
    "a quarantined table is not replayed": ModelDefect(
        L1,
        {"commit": 1, "invalid": 1, "replay": 1, "limit": 2, "triggers": 1},
        planted_replay.quarantine_prevents_the_replay,
    ),
    "the worker does not receive the replay": ModelDefect(
        S5_UNSEEN, {"replay": 1, "triggers": 1}, planted_replay.worker_without_the_replay
    ),
    "cancelling a replay covers its notice": ModelDefect(
        S4, {"commit": 1, "replay": 1, "cancel": 1, "triggers": 1}, planted_replay.cancel_covers_the_notice
    ),
    "a paused table is picked": ModelDefect(
        S6_PAUSED, {"commit": 1, "pause": 1, "triggers": 1}, planted_replay.pick_paused_table
    ),
    "a worker continues although its table is paused": ModelDefect(
        S6_PAUSED,
        {"commit": 1, "pause": 1, "triggers": 1},
        planted_replay.continue_after_slice_although_paused,
    ),
    "a worker continues after a replay although its table is paused": ModelDefect(
        S6_PAUSED,
        {"replay": 1, "pause": 1, "triggers": 1},
        planted_replay.continue_after_replay_although_paused,
    ),
    "a pause covers unmerged events": ModelDefect(
        S4, {"commit": 2, "pause": 1, "triggers": 1}, planted_replay.pause_covers_the_notice
    ),
    "resume keeps the quarantine": ModelDefect(
        S6_RESUMED,
        {"commit": 1, "invalid": 1, "resume": 1, "limit": 2, "triggers": 1},
        planted_replay.resume_keeps_the_quarantine,
    ),
    "a quarantined table is picked": ModelDefect(
        S6_QUARANTINED,
        {"commit": 1, "invalid": 1, "limit": 2, "triggers": 1},
        planted_replay.pick_quarantined_table,
    ),
    "a notice lifts a quarantine": ModelDefect(
        S6_NOT_LIFTED_BY_USER,
        {"commit": 2, "invalid": 1, "limit": 2, "triggers": 1},
        planted_replay.notice_lifts_a_quarantine,
    ),
    "a table that no job knows is not charged": ModelDefect(
        L2_LAUNCHES,
        {"tables": 2, "commit": 2, "limit": 2, "poison": "unknown", "triggers": 1},
        _no_charge_for_declined_table,
    ),
    "the tables that a job was launched for are forgotten": ModelDefect(
        L2_LAUNCHES,
        {"tables": 2, "commit": 2, "limit": 2, "poison": "unknown", "triggers": 1},
        _forget_wanted_tables,
    ),
    "declining a table takes it from its owner": ModelDefect(
        S2_TABLE,
        {"slots": 2, "commit": 1, "old": 1, "eager": True, "triggers": 1},
        _decline_releases_the_table,
    ),
}
