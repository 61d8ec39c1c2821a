"""The status of tables as JSON, built from their rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from icemirror.errors import BLOCKING_KINDS, Kind
from icemirror.protocol.due_tables import is_blocked
from icemirror.protocol.lag import Lag, compute_lag, measure_nothing
from icemirror.protocol.replay import Replay, ReplayEnd, ReplayProgress
from icemirror.protocol.rows import Rows, SlotId, SlotState, TableRow, TurnSummary
from icemirror.result import ErrorResult
from icemirror.settings import TableSettings
from icemirror.step_results import MeasuredBacklog
from trigger.status.local_backlog import LocalBacklogs


def table_status(
    table: TableSettings,
    rows: Rows,
    now: float,
    *,
    slots: int = 1,
    measured: MeasuredBacklog | ErrorResult | None = None,
    local_backlogs: LocalBacklogs | None = None,
) -> dict[str, Any]:
    """Return the status of one table; an unknown value is null. `slots`: the number of slots per group.

    `measured`: the backlog read from the tables themselves, or why that failed; it takes precedence over the row.
    `local_backlogs`: measures from noticed heads, if every notice comes from polling heads.
    """
    row = rows.tables.get(table.name) or TableRow(table.name, group=table.group)
    backlog = measured if isinstance(measured, MeasuredBacklog) else None
    failure = measured if isinstance(measured, ErrorResult) else None
    error = (
        row.error or row.look_error or _blocking_error(failure) or _launch_error(row, rows, slots) or failure
    )
    mirror_status = (backlog and backlog.mirror_status) or row.position
    return {
        "table": table.name,
        "state": _state(row, rows, backlog, failure),
        "lag": _lag(row, now, measured, local_backlogs)._asdict(),
        "last_run": _last_run(row.last_run) if row.last_run else None,
        "failures": row.failures,
        "error": error.model_dump(mode="json") if error else None,
        "live_rows": mirror_status.live_rows if mirror_status else None,
        "index_bytes": mirror_status.index_bytes if mirror_status else None,
        "cursor": mirror_status.cursor.model_dump(mode="json")
        if mirror_status and mirror_status.cursor
        else None,
        "head": row.noticed_head,
        "replay": _replay(row.replay) if row.replay else None,
        "last_replay": _last_replay(row.last_replay) if row.last_replay else None,
    }


def table_statuses(
    tables: Iterable[TableSettings],
    rows: Rows,
    now: float,
    *,
    slots: int = 1,
    local_backlogs: LocalBacklogs | None = None,
) -> list[dict[str, Any]]:
    """Return the status of all tables."""
    return [table_status(table, rows, now, slots=slots, local_backlogs=local_backlogs) for table in tables]


def _blocking_error(error: ErrorResult | None) -> ErrorResult | None:
    """Return the error if a retry does not help."""
    return error if error is not None and error.kind in BLOCKING_KINDS else None


def _state(row: TableRow, rows: Rows, backlog: MeasuredBacklog | None, failure: ErrorResult | None) -> str:
    """Return the state. A table is idle only if it is known to have nothing to do.

    A blocked table with a pending replay counts as waiting: the replay may repair it.
    """
    if row.owner is not None:
        return "running"
    if row.quarantined:
        return "blocked" if is_blocked(row) else "quarantined"
    if row.paused:
        return "paused"
    if row.replay is None and (_blocking_error(row.look_error) or _blocking_error(failure)):
        return "blocked"
    if row.dirty > row.covered:
        slots = (slot for slot in rows.slots.values() if slot.id.group == row.group)
        return "launching" if any(slot.state is SlotState.LAUNCHING for slot in slots) else "waiting"
    if row.look_error is not None or failure is not None:
        return "waiting"
    is_idle = row.dirty > 0 if backlog is None else backlog.snapshots == 0
    return "idle" if is_idle else "waiting"


def _lag(
    row: TableRow,
    now: float,
    measured: MeasuredBacklog | ErrorResult | None,
    local_backlogs: LocalBacklogs | None,
) -> Lag:
    """Return the measured lag. For a table that cannot be read: since when a noticed commit waits."""
    if isinstance(measured, MeasuredBacklog):
        return _measured_lag(measured, now)
    if row.dirty == row.covered and (measured is not None or row.look_error is not None):
        return Lag()
    return compute_lag(row, now, local_backlogs.measure if local_backlogs else measure_nothing)


def _measured_lag(backlog: MeasuredBacklog, now: float) -> Lag:
    """Return the lag since the oldest unmerged commit."""
    seconds = None if backlog.since is None else round(max(0.0, now - backlog.since), 3)
    return Lag(0.0 if backlog.snapshots == 0 else seconds, backlog.snapshots, backlog.events)


def _launch_error(row: TableRow, rows: Rows, slots: int) -> ErrorResult | None:
    """Return why a healthy table waits: no worker of its group starts."""
    group_slots = [rows.slot(SlotId(row.group, index)) for index in range(slots)]
    if row.dirty == row.covered or row.owner is not None or not all(slot.error for slot in group_slots):
        return None
    prefix = "no worker starts: " if all(slot.quarantined for slot in group_slots) else ""
    return ErrorResult(kind=Kind.TRANSIENT, message=f"{prefix}{group_slots[0].error}")


def _last_run(run: TurnSummary) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "started_at": _iso(run.started_at),
        "ended_at": _iso(run.ended_at),
        "outcome": run.outcome,
        "events": run.events,
    }


def _replay(replay: Replay) -> dict[str, Any]:
    since = None if replay.since_ms is None else _iso(replay.since_ms / 1000)
    return {
        "replay_id": replay.id,
        "requested_at": _iso(replay.requested_at),
        "full": replay.full,
        "from_snapshot": replay.from_snapshot,
        "since": since,
        "to_snapshot": replay.to_snapshot,
        **_progress(replay.progress),
    }


def _last_replay(end: ReplayEnd) -> dict[str, Any]:
    return {
        "replay_id": end.id,
        "ended_at": _iso(end.ended_at),
        "outcome": end.outcome,
        "error": end.error.model_dump(mode="json") if end.error else None,
        **_progress(end.progress),
    }


def _progress(progress: ReplayProgress | None) -> dict[str, Any]:
    """Return the progress; null before the first step."""
    return {
        "events": progress.events if progress else None,
        "of_events": progress.of_events if progress else None,
        "changed_rows": progress.changed_rows if progress else None,
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
