"""The trigger protocol as one pure function: rows and an event give at most one changed row, and actions.

Stores apply the change with compare-and-set; the model check in tests/sim/protocol explores it exhaustively.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from icemirror.protocol import slot_rules, table_rules
from icemirror.protocol.actions import (
    Action,
    Cancel,
    Idle,
    Launch,
    MergeTable,
    Released,
    ReplayRefused,
    SlotHeld,
    StopWorker,
    TableLost,
)
from icemirror.protocol.due_tables import due_at, is_waiting, waiting_tables
from icemirror.protocol.events import (
    Completed,
    Declined,
    Dispatch,
    Event,
    Failed,
    HeadRead,
    HeadReadFailed,
    Heartbeat,
    Leave,
    LingerPoll,
    Noticed,
    PauseRequested,
    Pick,
    Progressed,
    RecoverSlot,
    RecoverTable,
    ReplayCancelled,
    Replayed,
    ReplayRequested,
    Rescan,
    ResumeRequested,
    RunRecorded,
    RunState,
    SlotEvent,
    SlotResumeRequested,
    Started,
    TableEvent,
    TurnEnded,
)
from icemirror.protocol.policy import Policy
from icemirror.protocol.replay import ReplayEnd
from icemirror.protocol.rows import Owner, Row, Rows, SlotRow, SlotState, TableRow


@dataclass(frozen=True, slots=True)
class Step:
    """Result of an event: the changed row (None: no change), and what the sender does next."""

    row: Row | None
    actions: tuple[Action, ...] = ()


NO_CHANGE = Step(None)
STOP_WORKER = Step(None, (StopWorker(),))
TABLE_LOST = Step(None, (TableLost(),))


def step(rows: Rows, event: Event, policy: Policy) -> Step:
    """Return what one event changes. An outdated event changes nothing, so late events are safe."""
    if isinstance(event, TableEvent):
        return _drop_unchanged_row(rows, _table_step(rows, event, policy))
    return _drop_unchanged_row(rows, _slot_step(rows, event, policy))


def _drop_unchanged_row(rows: Rows, result: Step) -> Step:
    """Return the result without a row that equals the stored one."""
    match result.row:
        case None:
            return result
        case TableRow(name=name) as row:
            return Step(None, result.actions) if row == rows.tables.get(name) else result
        case SlotRow(id=slot) as row:
            return Step(None, result.actions) if row == rows.slots.get(slot) else result


def _table_step(rows: Rows, event: TableEvent, policy: Policy) -> Step:
    row = rows.table(event.table)
    match event:
        case Noticed():
            return Step(table_rules.add_notice(row, event))
        case HeadRead(now, table, options, head):
            updated = replace(table_rules.with_options(row, options), look_error=None)
            if table_rules.is_new_head(row, head) or table_rules.needs_recheck(row, now, policy):
                updated = table_rules.add_notice(updated, Noticed(now, table, options, head))
            return Step(updated)
        case HeadReadFailed():
            return Step(table_rules.record_head_error(row, event))
        case RecoverTable(now, _, jitter, log_location):
            if row.owner is None or not table_rules.owner_is_dead(row.owner, rows.slot(row.owner.slot)):
                return NO_CHANGE
            error = table_rules.worker_died_error(log_location)
            return Step(table_rules.count_replay_failure(row, now, jitter, error, policy))
        case PauseRequested():
            return Step(replace(row, paused=True))
        case ResumeRequested():
            return (
                Step(table_rules.record_resume(row, event.now)) if event.table in rows.tables else NO_CHANGE
            )
        case ReplayRequested(replay=replay):
            if row.replay is not None:
                return Step(None, () if row.replay.id == replay.id else (ReplayRefused(row.replay),))
            return Step(table_rules.request_replay(row, event))
        case ReplayCancelled(now, _, replay_id):
            progress = row.replay.progress if row.replay else None
            return Step(table_rules.end_replay(row, ReplayEnd(replay_id, now, "cancelled", progress)))
        case Declined(now, worker):
            if not slot_rules.holds_slot(rows.slot(worker.slot), worker):
                return STOP_WORKER
            is_due = is_waiting(row) and due_at(row, now, policy) <= now
            return Step(table_rules.record_decline(row, event, policy) if is_due else None, (Released(),))
        case Progressed() | TurnEnded() | Replayed() | Completed() | Failed():
            return TABLE_LOST if row.owner != event.worker.owner else _owner_step(rows, row, event, policy)
    assert_never(event)


def _owner_step(
    rows: Rows, row: TableRow, event: Progressed | TurnEnded | Replayed | Completed | Failed, policy: Policy
) -> Step:
    """Return what a report of the table's owner changes."""
    match event:
        case Progressed():
            return _continue_turn(table_rules.record_progress(row, event), event.now)
        case Replayed(mirror_status=mirror_status):
            updated = table_rules.complete_replay(row, event)
            return _continue_turn(replace(updated, position=mirror_status or row.position), event.now)
        case TurnEnded(now, worker, run=run, tables=names, releases_table=releases_table):
            updated = replace(table_rules.record_progress(row, event), last_run=run or row.last_run)
            other_tables_wait = _due_tables(rows, now, worker.slot.group, names, policy)
            if not releases_table and not other_tables_wait:
                return _continue_turn(updated, now)
            return Step(replace(updated, owner=None, yielded_at=now), (Released(),))
        case Completed():
            return Step(table_rules.record_completion(row, event), (Released(),))
        case Failed():
            return Step(table_rules.record_failure(row, event, policy), (Released(),))
    assert_never(event)


def _continue_turn(row: TableRow, now: float) -> Step:
    """Let the owner continue with its table and a pending replay, unless the table was paused (rule 9)."""
    if row.paused:
        return Step(replace(row, owner=None, yielded_at=now), (Released(),))
    return Step(row, (MergeTable(row.name, row.dirty, row.replay),))


def _due_tables(
    rows: Rows, now: float, group: str, names: frozenset[str] | None, policy: Policy
) -> list[TableRow]:
    return [row for due, row in waiting_tables(rows.tables.values(), now, group, names, policy) if due <= now]


def _idle(rows: Rows, event: Pick | LingerPoll, policy: Policy) -> Idle:
    """Return the answer to a worker for which no table is due (rules 11, 18).

    The row of a table removed from the configuration may wait forever. So another worker is launched only for tables
    noticed since this worker's launch, or for which it was launched.
    """
    now, slot_id, names = event.now, event.worker.slot, event.tables
    slot, group = rows.slot(slot_id), slot_id.group
    waiting = waiting_tables(rows.tables.values(), now, group, names, policy)
    next_due_at = waiting[0][0] if waiting else None
    if names is None:
        return Idle(next_due_at)
    other_tables = [row for row in _due_tables(rows, now, group, None, policy) if row.name not in names]
    unknown_tables = tuple(row.name for row in other_tables if row.name in slot.wanted)
    return Idle(
        next_due_at,
        bool(unknown_tables) or any(row.last_dirty_at >= slot.launched_at for row in other_tables),
        unknown_tables,
    )


def _must_yield(rows: Rows, event: Pick | LingerPoll | Rescan, due: list[TableRow], policy: Policy) -> bool:
    """Return whether a table that this worker's configuration lacks has waited longest, and too long (rule 18).

    Otherwise a worker that always finds work would never yield to a worker whose configuration has the new table.
    """
    now, slot = event.now, rows.slot(event.worker.slot)
    if event.tables is None or not due:
        return False
    longest_wait_seconds = now - due_at(due[0], now, policy)
    return any(
        now - due_at(row, now, policy) > max(longest_wait_seconds, policy.scale_out_seconds)
        for row in _due_tables(rows, now, slot.id.group, None, policy)
        if row.name not in event.tables
        and row.name not in slot.wanted
        and row.last_dirty_at >= slot.launched_at
    )


def _slot_step(rows: Rows, event: SlotEvent, policy: Policy) -> Step:
    match event:
        case Dispatch(now, group, names):
            due = _due_tables(rows, now, group, names, policy)
            waited_seconds = [now - due_at(table, now, policy) for table in due]
            row_to_launch = slot_rules.slot_to_launch(rows, event, waited_seconds, policy)
            if row_to_launch is None:
                return NO_CHANGE
            slot_row = slot_rules.start_generation(row_to_launch, now, [table.name for table in due], policy)
            return Step(slot_row, (Launch(slot_row.id, slot_row.gen),))
        case RunRecorded(now, slot_id, gen, run_id):
            row = rows.slot(slot_id)
            if row.state is not SlotState.LAUNCHING or row.gen != gen or row.run_id is not None:
                return NO_CHANGE
            return Step(replace(row, run_id=run_id, lease_until=now + policy.lease_seconds))
        case RecoverSlot():
            return _recover_slot(rows, event, policy)
        case SlotResumeRequested(_, slot_id):
            row = rows.slot(slot_id)
            return Step(slot_rules.clear_failures(row))
        case Started(now, worker):
            row = rows.slot(worker.slot)
            if row.state is not SlotState.LAUNCHING or row.gen != worker.gen:
                return STOP_WORKER
            started_at = max(now, row.launched_at)  # its clock may be behind the trigger's
            lease_until = started_at + policy.lease_seconds
            running = replace(row, state=SlotState.RUNNING, run_id=worker.run_id, lease_until=lease_until)
            return Step(running, (SlotHeld(worker.gen, row.launched_at),))
        case Heartbeat(now, worker, has_had_turn):
            row = rows.slot(worker.slot)
            if not slot_rules.holds_slot(row, worker):
                return STOP_WORKER
            renewed = slot_rules.renew_lease(row, now, policy)
            updated = slot_rules.clear_failures(renewed) if has_had_turn else renewed
            return Step(updated, (SlotHeld(worker.gen),))
        case Pick() | LingerPoll():
            return _find_work(rows, event, policy)
        case Leave(_, worker):
            row = rows.slot(worker.slot)
            if not slot_rules.holds_slot(row, worker):
                return STOP_WORKER
            return Step(slot_rules.free_slot(row), (Released(),))
        case Rescan(now, worker, names):
            row = rows.slot(worker.slot)
            was_freed_by_worker = row.state is SlotState.FREE and row.gen == worker.gen
            due = _due_tables(rows, now, worker.slot.group, names, policy)
            if not was_freed_by_worker or not due or _must_yield(rows, event, due, policy):
                return STOP_WORKER
            slot_row = replace(
                row,
                state=SlotState.RUNNING,
                gen=row.gen + 1,
                run_id=worker.run_id,
                lease_until=now + policy.lease_seconds,
            )
            return Step(slot_row, (SlotHeld(slot_row.gen),))
    assert_never(event)


def _find_work(rows: Rows, event: Pick | LingerPoll, policy: Policy) -> Step:
    """Take the table with the longest wait, or linger. A lingering worker first becomes RUNNING again (rules 8, 11)."""
    worker, now = event.worker, event.now
    slot, due = rows.slot(worker.slot), _due_tables(rows, now, worker.slot.group, event.tables, policy)
    if _must_yield(rows, event, due, policy):
        due = []
    if isinstance(event, Pick) and due:
        table = due[0]
        return Step(replace(table, owner=worker.owner), (MergeTable(table.name, table.dirty, table.replay),))
    if not slot_rules.holds_slot(slot, worker):
        return STOP_WORKER
    renewed = slot_rules.renew_lease(slot, now, policy)
    if due:
        return Step(replace(renewed, state=SlotState.RUNNING), (SlotHeld(worker.gen),))
    lingering = replace(slot_rules.clear_failures(renewed), state=SlotState.LINGERING)
    return Step(lingering, (_idle(rows, event, policy),))


def _recover_slot(rows: Rows, event: RecoverSlot, policy: Policy) -> Step:
    row = rows.slot(event.slot)
    if (row.gen, row.run_id) != (event.gen, event.run_id):  # the slot has changed since it was read
        return NO_CHANGE
    match row.state:
        case SlotState.FREE:
            return NO_CHANGE
        case SlotState.LAUNCHING:
            recovered, must_relaunch = slot_rules.recover_launch(row, event, policy)
            return Step(recovered, (Launch(row.id, row.gen),) if must_relaunch else ())
        case SlotState.RUNNING | SlotState.LINGERING:
            owner = Owner(row.id, row.gen)
            owns_table = any(table.owner == owner for table in rows.tables.values())
            recovered = slot_rules.recover_worker(row, event, owns_table=owns_table, policy=policy)
            may_still_run = recovered.state is SlotState.FREE and event.run is not RunState.ENDED
            return Step(recovered, (Cancel(row.run_id),) if may_still_run and row.run_id else ())
    assert_never(row.state)
