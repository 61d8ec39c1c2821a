"""Planted defects in the rules of replays, pauses and quarantine."""

from __future__ import annotations

from dataclasses import replace

from icemirror.errors import Kind
from icemirror.protocol.actions import MergeTable, Released
from icemirror.protocol.events import (
    Completed,
    Event,
    Failed,
    Noticed,
    Pick,
    Progressed,
    RecoverTable,
    ReplayCancelled,
    Replayed,
    ReplayRequested,
    ResumeRequested,
    TurnEnded,
)
from icemirror.protocol.policy import Policy
from icemirror.protocol.rows import Rows, TableRow
from icemirror.protocol.step import Step, step
from icemirror.result import ErrorResult

TRANSIENT = ErrorResult(kind=Kind.TRANSIENT, message="")


def request_without_notice(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case ReplayRequested(_, name), Step(TableRow() as row):
            return Step(replace(row, dirty=rows.table(name).dirty))
    return result


def second_request_replaces_the_first(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, ReplayRequested):
        row = replace(rows.table(event.table), replay=None)
        return step(Rows({**rows.tables, event.table: row}, rows.slots), event, policy)
    return step(rows, event, policy)


def any_report_ends_the_replay(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, Replayed) and (waiting := rows.table(event.table).replay) is not None:
        event = replace(event, replay_id=waiting.id)
    return step(rows, event, policy)


def any_progress_counts(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, Progressed | TurnEnded) and (waiting := rows.table(event.table).replay) is not None:
        event = replace(event, replay_id=waiting.id)
    return step(rows, event, policy)


def empty_plan_ends_the_replay(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case Completed(), Step(TableRow() as row):
            return Step(replace(row, replay=None), result.actions)
    return result


def empty_plan_covers_the_replay(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case Completed(), Step(TableRow() as row) if row.replay is not None:
            return Step(replace(row, covered=row.dirty), result.actions)
    return result


def death_drops_the_replay(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case RecoverTable(), Step(TableRow() as row):
            return Step(replace(row, replay=None))
    return result


def failure_drops_the_replay(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case Failed(), Step(TableRow() as row):
            return Step(replace(row, replay=None), result.actions)
    return result


def replay_never_given_up(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, Failed) and event.replay_id is not None:
        row = replace(rows.table(event.table), failures=0)
        transient = replace(event, error=TRANSIENT)
        return step(Rows({**rows.tables, event.table: row}, rows.slots), transient, policy)
    return step(rows, event, policy)


def quarantine_prevents_the_replay(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case ReplayRequested(_, name), Step(TableRow() as row):
            return Step(replace(row, quarantined=rows.table(name).quarantined))
    return result


def worker_without_the_replay(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match result.actions:
        case (MergeTable(table, dirty, _),):
            return Step(result.row, (MergeTable(table, dirty),))
    return result


def cancel_covers_the_notice(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case ReplayCancelled(), Step(TableRow() as row):
            return Step(replace(row, covered=row.dirty))
    return result


def pick_paused_table(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, Pick):
        unpaused = {name: replace(row, paused=False) for name, row in rows.tables.items()}
        result = step(Rows(unpaused, rows.slots), event, policy)
        match result.row:
            case TableRow(name=name) as row:
                return Step(replace(row, paused=rows.table(name).paused), result.actions)
        return result
    return step(rows, event, policy)


def continue_after_slice_although_paused(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case Progressed(_, worker, name), Step(TableRow(paused=True) as row, (Released(),)):
            return Step(
                replace(row, owner=worker.owner, yielded_at=None), (MergeTable(name, row.dirty, row.replay),)
            )
    return result


def continue_after_replay_although_paused(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case Replayed(_, worker, name), Step(TableRow(paused=True) as row, (Released(),)):
            return Step(
                replace(row, owner=worker.owner, yielded_at=None), (MergeTable(name, row.dirty, row.replay),)
            )
    return result


def pause_covers_the_notice(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case Progressed(), Step(TableRow(paused=True) as row, (Released(),)):
            return Step(replace(row, covered=row.dirty), result.actions)
    return result


def resume_keeps_the_quarantine(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case ResumeRequested(_, name), Step(TableRow() as row):
            return Step(replace(row, quarantined=rows.table(name).quarantined))
    return result


def pick_quarantined_table(rows: Rows, event: Event, policy: Policy) -> Step:
    if isinstance(event, Pick):
        lifted = {name: replace(row, quarantined=False) for name, row in rows.tables.items()}
        return step(Rows(lifted, rows.slots), event, policy)
    return step(rows, event, policy)


def notice_lifts_a_quarantine(rows: Rows, event: Event, policy: Policy) -> Step:
    result = step(rows, event, policy)
    match event, result:
        case Noticed(), Step(TableRow() as row):
            return Step(replace(row, quarantined=False, failures=0))
    return result
