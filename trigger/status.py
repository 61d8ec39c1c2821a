"""The status of every table as the contract's JSON, from its row."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from icemirror.errors import NEEDS_PERSON, Kind
from icemirror.result import Behind, ErrorResult
from icemirror.settings import TableSettings
from icemirror.state.lag import Lag, lag_of, no_other
from icemirror.state.replay import Replay, ReplayEnd, ReplayProgress
from icemirror.state.rows import Rows, RunSummary, SlotId, SlotState, TableRow
from trigger.lineages import Lineages


def table_status(
    table: TableSettings,
    rows: Rows,
    now: float,
    *,
    slots: int = 1,
    asked: Behind | ErrorResult | None = None,
    lineages: Lineages | None = None,
) -> dict[str, Any]:
    """One table; a value that cannot be known is null. `slots`: how many workers its group may have.

    `asked`: what the tables themselves say, if they were asked, which counts more than what the state remembers.
    `lineages`: of the heads that were noticed, where every notice comes from a look at them.
    """
    row = rows.tables.get(table.name) or TableRow(table.name, group=table.group)
    behind = asked if isinstance(asked, Behind) else None
    refused = asked if isinstance(asked, ErrorResult) else None
    error = row.error or row.look_error or _hopeless(refused) or _no_worker(row, rows, slots) or refused
    position = (behind and behind.position) or row.position
    return {
        "table": table.name,
        "state": _state(row, rows, behind, refused),
        "lag": _lag(row, now, asked, lineages)._asdict(),
        "last_run": _last_run(row.last_run) if row.last_run else None,
        "failures": row.failures,
        "error": error.model_dump(mode="json") if error else None,
        "live_rows": position.live_rows if position else None,
        "index_bytes": position.index_bytes if position else None,
        "cursor": position.cursor.model_dump(mode="json") if position and position.cursor else None,
        "head": row.noticed_head,
        "replay": _replay(row.replay) if row.replay else None,
        "last_replay": _last_replay(row.last_replay) if row.last_replay else None,
    }


def fleet_status(
    tables: Iterable[TableSettings],
    rows: Rows,
    now: float,
    *,
    slots: int = 1,
    lineages: Lineages | None = None,
) -> list[dict[str, Any]]:
    """All tables."""
    return [table_status(table, rows, now, slots=slots, lineages=lineages) for table in tables]


def _hopeless(error: ErrorResult | None) -> ErrorResult | None:
    """The error, if trying again does not help."""
    return error if error is not None and error.kind in NEEDS_PERSON else None


def _state(row: TableRow, rows: Rows, behind: Behind | None, refused: ErrorResult | None) -> str:
    """Idle is only what is known to have nothing to do. Where a replay waits, that may be the cure."""
    if row.owner is not None:
        return "running"
    if row.quarantined:
        return "quarantined"
    if row.paused:
        return "paused"
    if row.replay is None and (_hopeless(row.look_error) or _hopeless(refused)):
        return "needs-person"
    if row.dirty > row.covered:
        own = (slot for slot in rows.slots.values() if slot.id.group == row.group)
        return "launching" if any(slot.state is SlotState.LAUNCHING for slot in own) else "waiting"
    if row.look_error is not None or refused is not None:
        return "waiting"
    idle = row.dirty > 0 if behind is None else behind.snapshots == 0
    return "idle" if idle else "waiting"


def _lag(row: TableRow, now: float, asked: Behind | ErrorResult | None, lineages: Lineages | None) -> Lag:
    """What the tables say; of one that cannot be read, no more than since when a commit waits that was noticed."""
    if isinstance(asked, Behind):
        return _asked_lag(asked, now)
    if row.dirty == row.covered and (asked is not None or row.look_error is not None):
        return Lag()
    return lag_of(row, now, lineages.left if lineages else no_other)


def _asked_lag(behind: Behind, now: float) -> Lag:
    """Since the oldest commit that is not merged."""
    seconds = None if behind.since is None else round(max(0.0, now - behind.since), 3)
    return Lag(0.0 if behind.snapshots == 0 else seconds, behind.snapshots, behind.events)


def _no_worker(row: TableRow, rows: Rows, slots: int) -> ErrorResult | None:
    """Why a table waits although nothing is wrong with it: no worker of its group comes up."""
    own = [rows.slot(SlotId(row.group, index)) for index in range(slots)]
    if row.dirty == row.covered or row.owner is not None or not all(slot.error for slot in own):
        return None
    lead = "no worker comes up: " if all(slot.quarantined for slot in own) else ""
    return ErrorResult(kind=Kind.TRANSIENT, message=f"{lead}{own[0].error}")


def _last_run(run: RunSummary) -> dict[str, Any]:
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
    """Null before the first step."""
    return {
        "events": progress.events if progress else None,
        "of_events": progress.of_events if progress else None,
        "changed_rows": progress.changed_rows if progress else None,
    }


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
