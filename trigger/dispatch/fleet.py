"""The trigger's effects: poll heads, notice, recover, dispatch, launch. `protocol.step` makes the decisions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from icemirror.errors import IcemirrorError
from icemirror.processes.crash_points import reach
from icemirror.processes.run_request import RunRequest
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
from icemirror.protocol.reads import EVERYTHING
from icemirror.protocol.rows import Owner, Rows, SlotId, SlotRow, SlotState, TableRow
from icemirror.protocol.step import step
from icemirror.result import ErrorResult
from icemirror.stores.apply import Applied, apply
from icemirror.stores.store import Store
from icemirror.telemetry import names
from icemirror.telemetry.error_results import to_error_result
from icemirror.telemetry.logs import bind, get_log
from icemirror.telemetry.metrics import Metrics
from trigger.heads.head_source import Head
from trigger.launchers.launcher import Launcher
from trigger.tables.registry import Registry

if TYPE_CHECKING:
    from icemirror.settings import TableSettings

_CATALOG_TIMEOUT_SECONDS = 60.0

log = get_log(__name__)


def _no_heartbeat() -> None:
    """Do nothing."""


@dataclass
class Fleet:
    """Serves the tables of a registry. Any number of processes may do so at the same time.

    docs/explanation/trigger.md explains the numbered rules. `heartbeat` arguments are called before each step that
    a platform may take long for.
    """

    registry: Registry
    store: Store
    policy: Policy
    launcher: Launcher
    config: str
    metrics: Metrics
    clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
    launched: int = field(default=0, init=False)  # workers, by this process
    _launch_errors: dict[SlotId, str] = field(default_factory=dict)

    def sweep(
        self,
        catalog_timeout_seconds: float = _CATALOG_TIMEOUT_SECONDS,
        heartbeat: Callable[[], None] = _no_heartbeat,
    ) -> Rows:
        """Rule 13: Poll every head, add notices for new heads, recover dead runs, dispatch; return the rows afterwards.

        The order matters (rule 1): notices are written before the slots are read.
        """
        heads = self.registry.poll_heads(catalog_timeout_seconds)
        self.notice(heads, self.store.load(EVERYTHING))
        self.recover(self.store.load(EVERYTHING), heartbeat)
        return self.dispatch(heartbeat)

    def notice(self, heads: Mapping[str, Head], rows: Rows) -> None:
        """Rule 13: Compare heads with those that were noticed last."""
        for table in self.registry.tables:
            if table.name in heads:
                with bind(table=table.name):
                    self._notice_head(table, heads[table.name], rows)

    def recover(self, rows: Rows, heartbeat: Callable[[], None] = _no_heartbeat) -> None:
        """Rules 5, 6, 7: Free the slots and tables of dead runs, and repeat launches that were not recorded."""
        runs = {Owner(slot.id, slot.gen): slot.run_id for slot in rows.slots.values()}
        for slot in rows.slots.values():
            if slot.state is not SlotState.FREE:
                heartbeat()
                self._recover_slot(slot, rows)
        if any(row.owner for row in rows.tables.values()):
            rows = self.store.load(EVERYTHING)
        for row in rows.tables.values():
            if row.owner is not None:
                self._recover_table(row, runs.get(row.owner), rows)

    def dispatch(self, heartbeat: Callable[[], None] = _no_heartbeat) -> Rows:
        """Rule 2: Launch a worker for every group that needs one; return the rows afterwards."""
        rows = self.store.load(EVERYTHING)
        launched = False
        for group in sorted(self.registry.groups):
            heartbeat()
            launched |= self._dispatch_group(group, rows)
        return self.store.load(EVERYTHING) if launched else rows

    def _notice_head(self, table: TableSettings, head: Head, rows: Rows) -> None:
        now, options = self.clock(), scheduling_options(table)
        if isinstance(head, IcemirrorError):
            failure = to_error_result(head)
            if self._has_effect(failed := HeadReadFailed(now, table.name, options, failure), rows):
                self._apply(failed)
                log.warning("changelog head unavailable", reason=failure.message)
        elif self._has_effect(read := HeadRead(now, table.name, options, head), rows):
            reach("notice")
            applied = self._apply(read)
            reach("noticed")
            self._count_notice(table.name, applied)

    def _recover_slot(self, slot: SlotRow, rows: Rows) -> None:
        request = self._request(slot.id, slot.gen)
        try:
            if slot.run_id is None and (found := self.launcher.find(request.token)) is not None:
                self._record(slot.id, slot.gen, found)
                return
            run = RunState.UNKNOWN if slot.run_id is None else self.launcher.poll(slot.run_id)
        except IcemirrorError as error:
            log.warning("run status unavailable", reason=str(error))
            run = RunState.UNKNOWN
        why = (
            self._log_location(slot.run_id) if run is RunState.ENDED else self._launch_errors.get(slot.id, "")
        )
        event = RecoverSlot(self.clock(), slot.id, slot.gen, slot.run_id, run, self.jitter(), why)
        if not self._has_effect(event, rows):
            return
        reach("recover")
        applied = self._apply(event)
        reach("recovered")
        match applied.after:
            case SlotRow(state=SlotState.FREE, error=reason):
                log.warning("worker lost", token=request.token, run_state=run, reason=reason)
        self._act(applied.actions)

    def _recover_table(self, row: TableRow, run_id: str | None, rows: Rows) -> None:
        event = RecoverTable(self.clock(), row.name, self.jitter(), self._log_location(run_id))
        if not self._has_effect(event, rows):
            return
        reach("release-table")
        applied = self._apply(event)
        reach("table-released")
        match applied.after:
            case TableRow(owner=None, error=ErrorResult() as error):
                with bind(table=row.name):
                    log.warning("job ended during a turn", reason=error.message)

    def _dispatch_group(self, group: str, rows: Rows) -> bool:
        event = Dispatch(self.clock(), group, self.registry.names(group))
        if not self._has_effect(event, rows):
            return False
        reach("dispatch")
        applied = self._apply(event)
        reach("dispatched")
        self._act(applied.actions)
        return True

    def _act(self, actions: tuple[Action, ...]) -> None:
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
        reach("launch")
        try:
            run_id = self.launcher.launch(request)
        except IcemirrorError as error:  # repeated when the launch lease has expired
            log.warning("launch failed", token=request.token, reason=str(error))
            self._launch_errors[slot] = to_error_result(error).message
            return
        reach("launched")
        self._launch_errors.pop(slot, None)
        self._record(slot, gen, run_id)
        self.launched += 1
        self.metrics.count(names.LAUNCHES)

    def _cancel(self, run_id: str) -> None:
        """Cancel a run whose slot is already free. If that fails, the run is fenced and ends at its next step."""
        try:
            self.launcher.cancel(run_id)
        except IcemirrorError as error:
            log.warning("run not cancelled", reason=str(error))

    def _record(self, slot: SlotId, gen: int, run_id: str) -> None:
        self._apply(RunRecorded(self.clock(), slot, gen, run_id))
        reach("recorded")
        with bind(run=run_id):
            log.info("worker launched", token=self._request(slot, gen).token)

    def _request(self, slot: SlotId, gen: int) -> RunRequest:
        return RunRequest(group=slot.group, slot=slot.index, gen=gen, config=self.config)

    def _log_location(self, run_id: str | None) -> str:
        return self.launcher.log_location(run_id) if run_id else ""

    def _apply(self, event: Event) -> Applied:
        return apply(self.store, event, self.policy)

    def _has_effect(self, event: Event, rows: Rows) -> bool:
        """Whether the event changes these rows; if not, the store is not called."""
        decided = step(rows, event, self.policy)
        return decided.row is not None or bool(decided.actions)

    def _count_notice(self, table: str, applied: Applied) -> None:
        if not isinstance(applied.after, TableRow):
            return
        before = applied.before if isinstance(applied.before, TableRow) else TableRow(table)
        if applied.after.dirty > before.dirty:
            self.metrics.count(names.NOTICES, table=table)
            moved = applied.after.noticed_head != before.noticed_head
            event = "changelog moved" if moved else "recheck due"
            log.info(event, notices=applied.after.dirty - applied.after.covered)
            if before.dirty > before.covered:
                self.metrics.count(names.COALESCED, table=table)
