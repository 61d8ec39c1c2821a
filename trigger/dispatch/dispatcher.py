"""The trigger's effects: poll heads, notice, recover, dispatch, launch. `protocol.step` makes the decisions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from icemirror.errors import IcemirrorError
from icemirror.processes.crash_points import crash_point
from icemirror.protocol.actions import Action, Cancel, Launch
from icemirror.protocol.events import (
    Dispatch,
    Event,
    HeadRead,
    HeadReadFailed,
    RecoverSlot,
    RecoverTable,
    RunRecorded,
    RunState,
    scheduling_options,
)
from icemirror.protocol.policy import Policy
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import Owner, Rows, SlotId, SlotRow, SlotState, TableRow
from icemirror.protocol.run_request import RunRequest
from icemirror.result import ErrorResult
from icemirror.stores.apply import Applied, apply, has_effect
from icemirror.stores.store import Store
from icemirror.telemetry import metric_names
from icemirror.telemetry.error_results import to_error_result
from icemirror.telemetry.logs import bind, get_log
from icemirror.telemetry.metrics import Metrics
from trigger.heads.head_source import HeadResult
from trigger.launchers.launcher import Launcher
from trigger.tables.registry import TableRegistry

if TYPE_CHECKING:
    from icemirror.settings import TableSettings

_CATALOG_TIMEOUT_SECONDS = 60.0

log = get_log(__name__)


def _no_heartbeat() -> None:
    """Do nothing."""


@dataclass
class Dispatcher:
    """Notices commits, recovers dead runs and launches workers for the tables of a registry.

    Any number of processes may do so at the same time. docs/development/change-the-trigger.md lists the numbered rules.
    `heartbeat` is called before each step that may wait for a platform. `launched_workers`: by this process.
    """

    registry: TableRegistry
    store: Store
    policy: Policy
    launcher: Launcher
    config: str
    metrics: Metrics
    clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
    launched_workers: int = field(default=0, init=False)
    _launch_errors: dict[SlotId, str] = field(default_factory=dict)

    def sweep(
        self,
        catalog_timeout_seconds: float = _CATALOG_TIMEOUT_SECONDS,
        heartbeat: Callable[[], None] = _no_heartbeat,
    ) -> Rows:
        """Poll every head, add notices, recover dead runs, dispatch (rule 13); return the rows afterwards.

        The order matters (rule 1): notices are written before the slots are read.
        """
        heads = self.registry.poll_heads(catalog_timeout_seconds)
        self.notice(heads, self.store.load(ALL_ROWS))
        self.recover(self.store.load(ALL_ROWS), heartbeat)
        return self.dispatch(heartbeat)

    def notice(self, heads: Mapping[str, HeadResult], rows: Rows) -> None:
        """Add notices for heads that differ from those noticed last (rule 13)."""
        for table in self.registry.tables:
            if table.name in heads:
                with bind(table=table.name):
                    self._notice_head(table, heads[table.name], rows)

    def recover(self, rows: Rows, heartbeat: Callable[[], None] = _no_heartbeat) -> None:
        """Free the slots and tables of dead runs, and repeat launches that were not recorded (rules 5, 6, 7)."""
        run_ids = {Owner(slot.id, slot.gen): slot.run_id for slot in rows.slots.values()}
        for slot in rows.slots.values():
            if slot.state is not SlotState.FREE:
                heartbeat()
                self._recover_slot(slot, rows)
        if any(row.owner for row in rows.tables.values()):
            rows = self.store.load(ALL_ROWS)
        for row in rows.tables.values():
            if row.owner is not None:
                self._recover_table(row, run_ids.get(row.owner), rows)

    def dispatch(self, heartbeat: Callable[[], None] = _no_heartbeat) -> Rows:
        """Launch a worker for every group that needs one; return the rows afterwards (rule 2)."""
        rows = self.store.load(ALL_ROWS)
        has_launched = False
        for group in sorted(self.registry.groups):
            heartbeat()
            has_launched |= self._dispatch_group(group, rows)
        return self.store.load(ALL_ROWS) if has_launched else rows

    def _notice_head(self, table: TableSettings, head: HeadResult, rows: Rows) -> None:
        now, options = self.clock(), scheduling_options(table)
        if isinstance(head, IcemirrorError):
            error = to_error_result(head)
            failure_event = HeadReadFailed(now, table.name, options, error)
            if has_effect(failure_event, rows, self.policy):
                self._apply(failure_event)
                log.warning("changelog head unavailable", reason=error.message)
            return
        event = HeadRead(now, table.name, options, head)
        if has_effect(event, rows, self.policy):
            crash_point("notice")
            applied = self._apply(event)
            crash_point("noticed")
            self._count_head_notice(table.name, applied)

    def _recover_slot(self, slot: SlotRow, rows: Rows) -> None:
        request = self._request(slot.id, slot.gen)
        try:
            if slot.run_id is None and (run_id := self.launcher.find(request.token)) is not None:
                self._record_run(slot.id, slot.gen, run_id)
                return
            run = RunState.UNKNOWN if slot.run_id is None else self.launcher.poll(slot.run_id)
        except IcemirrorError as error:
            log.warning("run status unavailable", reason=str(error))
            run = RunState.UNKNOWN
        event = RecoverSlot(
            self.clock(),
            slot.id,
            slot.gen,
            slot.run_id,
            run,
            self.jitter(),
            log_location=self._log_location(slot.run_id) if run is RunState.ENDED else "",
            launch_error=self._launch_errors.get(slot.id, ""),
        )
        if not has_effect(event, rows, self.policy):
            return
        crash_point("recover")
        applied = self._apply(event)
        crash_point("recovered")
        match applied.new_row:
            case SlotRow(state=SlotState.FREE, error=reason):
                log.warning("worker lost", token=request.token, run_state=run, reason=reason)
        self._perform(applied.actions)

    def _recover_table(self, row: TableRow, run_id: str | None, rows: Rows) -> None:
        event = RecoverTable(self.clock(), row.name, self.jitter(), self._log_location(run_id))
        if not has_effect(event, rows, self.policy):
            return
        crash_point("release-table")
        applied = self._apply(event)
        crash_point("table-released")
        match applied.new_row:
            case TableRow(owner=None, error=ErrorResult() as error):
                with bind(table=row.name):
                    log.warning("job ended during a turn", reason=error.message)

    def _dispatch_group(self, group: str, rows: Rows) -> bool:
        event = Dispatch(self.clock(), group, self.registry.names(group))
        if not has_effect(event, rows, self.policy):
            return False
        crash_point("dispatch")
        applied = self._apply(event)
        crash_point("dispatched")
        self._perform(applied.actions)
        return True

    def _perform(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case Launch(slot, gen):
                    self._launch(slot, gen)
                case Cancel(run_id):
                    self._cancel(run_id)
                case _:
                    raise ValueError(f"{action} is not an action of a trigger")

    def _launch(self, slot: SlotId, gen: int) -> None:
        request = self._request(slot, gen)
        crash_point("launch")
        try:
            run_id = self.launcher.launch(request)
        except IcemirrorError as error:  # repeated when the launch lease has expired
            log.warning("launch failed", token=request.token, reason=str(error))
            self._launch_errors[slot] = to_error_result(error).message
            return
        crash_point("launched")
        self._launch_errors.pop(slot, None)
        self._record_run(slot, gen, run_id)
        self.launched_workers += 1
        self.metrics.count(metric_names.LAUNCHES)

    def _cancel(self, run_id: str) -> None:
        """Cancel a run whose slot is already free. If that fails, the run is fenced and ends at its next step."""
        try:
            self.launcher.cancel(run_id)
        except IcemirrorError as error:
            log.warning("run not cancelled", reason=str(error))

    def _record_run(self, slot: SlotId, gen: int, run_id: str) -> None:
        self._apply(RunRecorded(self.clock(), slot, gen, run_id))
        crash_point("recorded")
        with bind(run=run_id):
            log.info("worker launched", token=self._request(slot, gen).token)

    def _request(self, slot: SlotId, gen: int) -> RunRequest:
        return RunRequest(group=slot.group, slot=slot.index, gen=gen, config=self.config)

    def _log_location(self, run_id: str | None) -> str:
        return self.launcher.log_location(run_id) if run_id else ""

    def _apply(self, event: Event) -> Applied:
        return apply(self.store, event, self.policy)

    def _count_head_notice(self, table: str, applied: Applied) -> None:
        if not isinstance(applied.new_row, TableRow):
            return
        new_row, old_row = applied.new_row, old_table_row(applied, table)
        if new_row.dirty > old_row.dirty:
            count_notices(self.metrics, old_row, hint_count=1)
            event = "recheck due" if new_row.noticed_head == old_row.noticed_head else "changelog moved"
            log.info(event, notices=new_row.dirty - new_row.covered)


def old_table_row(applied: Applied, table: str) -> TableRow:
    """Return the table's row before the event, or a new one."""
    return applied.old_row if isinstance(applied.old_row, TableRow) else TableRow(table)


def count_notices(metrics: Metrics, old_row: TableRow, hint_count: int) -> None:
    """Count hints as notices, and those that started no new wait as coalesced."""
    was_waiting = old_row.dirty > old_row.covered
    coalesced = hint_count if was_waiting else hint_count - 1
    metrics.count(metric_names.NOTICES, hint_count, table=old_row.name)
    if coalesced:
        metrics.count(metric_names.COALESCED, coalesced, table=old_row.name)
