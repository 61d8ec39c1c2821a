"""The trigger protocol as one pure function: rows and an event give one changed row at most, and what to do.

Stores apply it with compare-and-set on that row; the model check in tests/sim/protocol explores it in full.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from icemirror.state import slot_rules, table_rules
from icemirror.state.actions import Action, Cancel, Exit, Held, Idle, Launch, Lost, Merge, Refused, Released
from icemirror.state.eligibility import due_at, waiting, waits
from icemirror.state.events import (
    Beat,
    Completed,
    Dispatch,
    Event,
    Failed,
    Leave,
    Looked,
    LookFailed,
    Noticed,
    PassedBy,
    Paused,
    Pick,
    Progressed,
    Recorded,
    Recover,
    ReplayCancelled,
    Replayed,
    ReplayRequested,
    Resumed,
    Retake,
    RunState,
    SlotEvent,
    SlotResumed,
    Started,
    TableEvent,
    TurnEnded,
    Unown,
    Wake,
)
from icemirror.state.policy import Policy
from icemirror.state.replay import ReplayEnd
from icemirror.state.rows import Owner, Row, Rows, SlotRow, SlotState, TableRow


@dataclass(frozen=True, slots=True)
class Step:
    """What an event came to: the row as it shall be (None: all stays), and what its sender does next."""

    row: Row | None
    actions: tuple[Action, ...] = ()


STAY = Step(None)
EXIT = Step(None, (Exit(),))
LOST = Step(None, (Lost(),))


def step(rows: Rows, event: Event, policy: Policy) -> Step:
    """Applies one event. A row changes only if the event still fits it: a late sender does no harm."""
    if isinstance(event, TableEvent):
        return _changed(rows, _table_step(rows, event, policy))
    return _changed(rows, _slot_step(rows, event, policy))


def _changed(rows: Rows, result: Step) -> Step:
    """Leaves out a row that is as it was."""
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
            return Step(table_rules.notice(row, event))
        case Looked(now, table, terms, head):
            seen = replace(table_rules.with_terms(row, terms), look_error=None)
            if table_rules.unnoticed(row, head) or table_rules.overdue(row, now, policy):
                seen = table_rules.notice(seen, Noticed(now, table, terms, head))
            return Step(seen)
        case LookFailed():
            return Step(table_rules.look_failed(row, event))
        case Unown(now, _, jitter, log):
            if row.owner is None or not table_rules.owner_is_dead(row.owner, rows.slot(row.owner.slot)):
                return STAY
            return Step(table_rules.charge_replay(row, now, jitter, table_rules.died(log), policy))
        case Paused():
            return Step(replace(row, paused=True))
        case Resumed():
            return Step(table_rules.resume(row, event.now)) if event.table in rows.tables else STAY
        case ReplayRequested(replay=replay):
            if row.replay is not None:
                return Step(None, () if row.replay.id == replay.id else (Refused(row.replay),))
            return Step(table_rules.request_replay(row, event))
        case ReplayCancelled(now, _, replay_id):
            progress = row.replay.progress if row.replay else None
            return Step(table_rules.end_replay(row, ReplayEnd(replay_id, now, "cancelled", progress)))
        case PassedBy(now, me):
            if not slot_rules.mine(rows.slot(me.slot), me):
                return EXIT
            untaken = waits(row) and due_at(row, now, policy) <= now
            return Step(table_rules.pass_by(row, event, policy) if untaken else None, (Released(),))
        case Progressed() | TurnEnded() | Replayed() | Completed() | Failed():
            return LOST if row.owner != event.me.owner else _worker_step(rows, row, event, policy)
    assert_never(event)


def _worker_step(
    rows: Rows, row: TableRow, event: Progressed | TurnEnded | Replayed | Completed | Failed, policy: Policy
) -> Step:
    """What the owner of a table reports."""
    match event:
        case Progressed():
            return _go_on(table_rules.note_progress(row, event), event.now)
        case Replayed(position=position):
            new = table_rules.replayed(row, event)
            return _go_on(replace(new, position=position or row.position), event.now)
        case TurnEnded(now, me, run=run, tables=names, give_back=give_back):
            new = replace(table_rules.note_progress(row, event), last_run=run or row.last_run)
            others_wait = _eligible(rows, now, me.slot.group, names, policy)
            if not give_back and not others_wait:
                return _go_on(new, now)
            return Step(replace(new, owner=None, yielded_at=now), (Released(),))
        case Completed():
            return Step(table_rules.complete(row, event), (Released(),))
        case Failed():
            return Step(table_rules.fail(row, event, policy), (Released(),))
    assert_never(event)


def _go_on(row: TableRow, now: float) -> Step:
    """9. The owner goes on with its table, and what waits there; unless it was paused."""
    if row.paused:
        return Step(replace(row, owner=None, yielded_at=now), (Released(),))
    return Step(row, (Merge(row.name, row.dirty, row.replay),))


def _eligible(
    rows: Rows, now: float, group: str, names: frozenset[str] | None, policy: Policy
) -> list[TableRow]:
    return [row for due, row in waiting(rows.tables.values(), now, group, names, policy) if due <= now]


def _idle(rows: Rows, event: Pick | Wake, policy: Policy) -> Idle:
    """11, 18. What waits is not due yet, or none of the tables that this worker knows.

    The row of a table that nobody has configured any more may wait for ever: only what was noticed since the launch, or
    was a reason for it, is worth another worker.
    """
    now, group, names, slot = event.now, event.me.slot.group, event.tables, rows.slot(event.me.slot)
    due = next((due for due, _ in waiting(rows.tables.values(), now, group, names, policy)), None)
    if names is None:
        return Idle(due)
    others = [row for row in _eligible(rows, now, group, None, policy) if row.name not in names]
    unknown = tuple(row.name for row in others if row.name in slot.wanted)
    return Idle(due, bool(unknown) or any(row.last_dirty_at >= slot.launched_at for row in others), unknown)


def _comes_first(rows: Rows, event: Pick | Wake | Retake, eligible: list[TableRow], policy: Policy) -> bool:
    """18. A table that is younger than this worker's configuration waits longer than all that it knows, and too long.

    Where the worker always finds something to do, one that knows the table would never come.
    """
    now, me, slot = event.now, event.me, rows.slot(event.me.slot)
    if event.tables is None or not eligible:
        return False
    longest = now - due_at(eligible[0], now, policy)
    return any(
        now - due_at(row, now, policy) > max(longest, policy.scale_out_seconds)
        for row in _eligible(rows, now, me.slot.group, None, policy)
        if row.name not in event.tables
        and row.name not in slot.wanted
        and row.last_dirty_at >= slot.launched_at
    )


def _slot_step(rows: Rows, event: SlotEvent, policy: Policy) -> Step:
    match event:
        case Dispatch(now, group, names):
            found = waiting(rows.tables.values(), now, group, names, policy)
            ready = [(now - due, row.name) for due, row in found if due <= now]
            slot = slot_rules.wanted_slot(rows, event, [waited for waited, _ in ready], policy)
            if slot is None:
                return STAY
            taken = slot_rules.take(slot, now, [name for _, name in ready], policy)
            return Step(taken, (Launch(taken.id, taken.gen),))
        case Recorded(now, slot_id, gen, run_id):
            row = rows.slot(slot_id)
            if row.state is not SlotState.LAUNCHING or row.gen != gen or row.run_id is not None:
                return STAY
            return Step(replace(row, run_id=run_id, lease_until=now + policy.lease_seconds))
        case Recover():
            return _recover(rows, event, policy)
        case SlotResumed(_, slot_id):
            row = rows.slot(slot_id)
            return Step(slot_rules.forgive(row))
        case Started(now, me):
            row = rows.slot(me.slot)
            if row.state is not SlotState.LAUNCHING or row.gen != me.gen:
                return EXIT
            begins_at = max(now, row.launched_at)  # not before its launch, whatever its clock says
            started = replace(
                row, state=SlotState.RUNNING, run_id=me.run_id, lease_until=begins_at + policy.lease_seconds
            )
            return Step(started, (Held(me.gen, row.launched_at),))
        case Beat(now, me, proven):
            row = rows.slot(me.slot)
            if not slot_rules.mine(row, me):
                return EXIT
            beating = slot_rules.beat(row, now, policy)
            return Step(slot_rules.forgive(beating) if proven else beating, (Held(me.gen),))
        case Pick() | Wake():
            return _look_for_work(rows, event, policy)
        case Leave(_, me):
            row = rows.slot(me.slot)
            return Step(slot_rules.free(row), (Released(),)) if slot_rules.mine(row, me) else EXIT
        case Retake(now, me, names):
            row = rows.slot(me.slot)
            freed_by_me = row.state is SlotState.FREE and row.gen == me.gen
            eligible = _eligible(rows, now, me.slot.group, names, policy)
            if not freed_by_me or not eligible or _comes_first(rows, event, eligible, policy):
                return EXIT
            taken = replace(
                row,
                state=SlotState.RUNNING,
                gen=row.gen + 1,
                run_id=me.run_id,
                lease_until=now + policy.lease_seconds,
            )
            return Step(taken, (Held(taken.gen),))
    assert_never(event)


def _look_for_work(rows: Rows, event: Pick | Wake, policy: Policy) -> Step:
    """8, 11. Take the table that waits longest, or linger; a lingering worker wakes before it takes one."""
    me, now = event.me, event.now
    slot, eligible = rows.slot(me.slot), _eligible(rows, now, me.slot.group, event.tables, policy)
    if _comes_first(rows, event, eligible, policy):
        eligible = []
    if isinstance(event, Pick) and eligible:
        table = eligible[0]
        return Step(replace(table, owner=me.owner), (Merge(table.name, table.dirty, table.replay),))
    if not slot_rules.mine(slot, me):
        return EXIT
    beating = slot_rules.beat(slot, now, policy)
    if eligible:
        return Step(replace(beating, state=SlotState.RUNNING), (Held(me.gen),))
    lingering = replace(slot_rules.forgive(beating), state=SlotState.LINGERING)
    return Step(lingering, (_idle(rows, event, policy),))


def _recover(rows: Rows, event: Recover, policy: Policy) -> Step:
    row = rows.slot(event.slot)
    if (row.gen, row.run_id) != (event.gen, event.run_id):  # another has moved it since it was looked at
        return STAY
    match row.state:
        case SlotState.FREE:
            return STAY
        case SlotState.LAUNCHING:
            new, again = slot_rules.recover_launch(row, event, policy)
            return Step(new, (Launch(row.id, row.gen),) if again else ())
        case SlotState.RUNNING | SlotState.LINGERING:
            me = Owner(row.id, row.gen)
            owns = any(table.owner == me for table in rows.tables.values())
            new = slot_rules.recover_worker(row, event, owns_table=owns, policy=policy)
            may_live = new.state is SlotState.FREE and event.run is not RunState.GONE
            return Step(new, (Cancel(row.run_id),) if may_live and row.run_id else ())
    assert_never(row.state)
