"""The trigger's effects: look at heads, dispatch, launch, recover. All decisions are `icemirror.state.step`'s."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from icemirror.crash import reach
from icemirror.errors import IcemirrorError
from icemirror.failure import failure_of
from icemirror.result import ErrorResult
from icemirror.run_request import RunRequest
from icemirror.state.actions import Action, Cancel, Launch
from icemirror.state.apply import Applied, apply
from icemirror.state.eligibility import due_at, waits
from icemirror.state.events import Dispatch, Event, Looked, LookFailed, Recorded, Recover, RunState, Unown
from icemirror.state.policy import Policy
from icemirror.state.reads import EVERYTHING
from icemirror.state.rows import Owner, Rows, SlotId, SlotRow, SlotState, TableRow
from icemirror.state.step import step
from icemirror.state.store import Store
from icemirror.state.terms import terms_of
from icemirror.telemetry import names
from icemirror.telemetry.logs import bind, get_log
from icemirror.telemetry.metrics import Metrics
from trigger.heads.source import Head
from trigger.launchers.launcher import Launcher
from trigger.registry import Registry

if TYPE_CHECKING:
    from icemirror.settings import TableSettings

_ONE_SHOT_PATIENCE_SECONDS = 60.0

log = get_log(__name__)


def _nothing() -> None:
    """Nobody asks whether this lives."""


@dataclass
class Fleet:
    """Keeps the tables of a registry served. Any number of processes may do so at the same time."""

    registry: Registry
    store: Store
    policy: Policy
    launcher: Launcher
    config: str
    metrics: Metrics
    clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
    _refusals: dict[SlotId, str] = field(default_factory=dict)

    def sweep(
        self, patience_seconds: float = _ONE_SHOT_PATIENCE_SECONDS, alive: Callable[[], None] = _nothing
    ) -> Rows:
        """One round: look at every head, recover what died, launch what is wanted; the rows afterwards.

        The order matters (rule 1): what is noticed is written before the slots are read. `alive` is called before
        each thing that a platform may take its time for.
        """
        self._look_around(patience_seconds, alive)
        return self._launch_wanted(alive)

    def _look_around(self, patience_seconds: float, alive: Callable[[], None] = _nothing) -> None:
        heads = self.registry.heads(patience_seconds)
        self.notice(heads, self.store.load(EVERYTHING))
        self.recover(self.store.load(EVERYTHING), alive)

    def _launch_wanted(self, alive: Callable[[], None] = _nothing) -> Rows:
        rows = self.store.load(EVERYTHING)
        launched = self.dispatch_all(rows, alive)
        return self.store.load(EVERYTHING) if launched else rows

    def sweep_once(self, sleep: Callable[[float], None] = time.sleep) -> Rows:
        """A round for cron: stays until what it noticed has had its quiet period, so that it can launch."""
        ends_at: float | None = None
        while True:
            self._look_around(_ONE_SHOT_PATIENCE_SECONDS)
            began = self.clock()
            rows = self._launch_wanted()
            ends_at = ends_at or self.clock() + self.policy.max_wait_seconds
            next_at = self._next_due(rows, began)
            if next_at is None or next_at > ends_at:
                return rows
            sleep(max(0.0, next_at - self.clock()))

    def _next_due(self, rows: Rows, began: float) -> float | None:
        """When the next of the waiting tables may be taken that could not be when launching began.

        One that became due since may have been passed by: a platform may take its time for a launch.
        """
        known = {table.name for table in self.registry.tables}
        mine = (row for row in rows.tables.values() if row.name in known and waits(row))
        due = (due_at(row, began, self.policy) for row in mine)
        return min((at for at in due if at > began), default=None)

    def notice(self, heads: Mapping[str, Head], rows: Rows) -> None:
        """13. Compares heads with what was noticed last."""
        for table in self.registry.tables:
            if table.name in heads:
                with bind(table=table.name):
                    self._look(table, heads[table.name], rows)

    def recover(self, rows: Rows, alive: Callable[[], None] = _nothing) -> None:
        """5, 6, 7. Frees what dead runs hold, and repeats launches that nobody recorded."""
        runs = {Owner(slot.id, slot.gen): slot.run_id for slot in rows.slots.values()}
        for slot in rows.slots.values():
            if slot.state is not SlotState.FREE:
                alive()
                self._recover(slot, rows)
        if any(row.owner for row in rows.tables.values()):
            rows = self.store.load(EVERYTHING)
        for row in rows.tables.values():
            if row.owner is None:
                continue
            event = Unown(self.clock(), row.name, self.jitter(), self._log_of(runs.get(row.owner)))
            if self._matters(event, rows):
                reach("unown")
                applied = self._apply(event)
                reach("unowned")
                match applied.after:
                    case TableRow(owner=None, error=ErrorResult() as error):
                        with bind(table=row.name):
                            log.warning("the job ended while it had this table", reason=error.message)

    def dispatch_all(self, rows: Rows, alive: Callable[[], None] = _nothing) -> bool:
        """2. The same for every group."""
        done = False
        for group in sorted(self.registry.groups):
            alive()
            done |= self.dispatch(group, rows)
        return done

    def dispatch(self, group: str, rows: Rows) -> bool:
        """2. Launches a worker if one is wanted; whether anything was done."""
        event = Dispatch(self.clock(), group, self.registry.names(group))
        if not self._matters(event, rows):
            return False
        reach("dispatch")
        applied = self._apply(event)
        reach("dispatched")
        self._act(applied.actions)
        return True

    def _look(self, table: TableSettings, head: Head, rows: Rows) -> None:
        now, terms = self.clock(), terms_of(table)
        if isinstance(head, IcemirrorError):
            failure = failure_of(head)
            if self._matters(event := LookFailed(now, table.name, terms, failure), rows):
                self._apply(event)
                log.warning("changelog cannot be looked at", reason=failure.message)
        elif self._matters(seen := Looked(now, table.name, terms, head), rows):
            reach("notice")
            applied = self._apply(seen)
            reach("noticed")
            self._count_notice(table.name, applied)

    def _recover(self, slot: SlotRow, rows: Rows) -> None:
        request = self._request(slot.id, slot.gen)
        try:
            if slot.run_id is None and (found := self.launcher.find(request.token)) is not None:
                self._record(slot.id, slot.gen, found)
                return
            run = RunState.UNKNOWN if slot.run_id is None else self.launcher.poll(slot.run_id)
        except IcemirrorError as error:
            log.warning("run cannot be asked about", reason=str(error))
            run = RunState.UNKNOWN
        seen_in = self._log_of(slot.run_id) if run is RunState.GONE else self._refusals.get(slot.id, "")
        event = Recover(self.clock(), slot.id, slot.gen, slot.run_id, run, self.jitter(), seen_in)
        if self._matters(event, rows):
            reach("recover")
            applied = self._apply(event)
            reach("recovered")
            match applied.after:
                case SlotRow(state=SlotState.FREE, error=why):
                    log.warning("worker is gone", token=request.token, run_state=run, reason=why)
            self._act(applied.actions)

    def _act(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case Launch(slot, gen):
                    self._launch(slot, gen)
                case Cancel(run_id):
                    self._cancel(run_id)
                case _:
                    raise ValueError(f"{action} is nothing that a trigger does")

    def _launch(self, slot: SlotId, gen: int) -> None:
        request = self._request(slot, gen)
        reach("launch")
        try:
            run_id = self.launcher.launch(request)
        except IcemirrorError as error:  # the lease of the launch ends, and it is repeated
            log.warning("launch failed", token=request.token, reason=str(error))
            self._refusals[slot] = failure_of(error).message
            return
        reach("launched")
        self._refusals.pop(slot, None)
        self._record(slot, gen, run_id)
        self.metrics.count(names.LAUNCHES)

    def _cancel(self, run_id: str) -> None:
        """The slot is free already, so a run that stays finds itself fenced, and ends at its next step."""
        try:
            self.launcher.cancel(run_id)
        except IcemirrorError as error:
            log.warning("run could not be ended", reason=str(error))

    def _record(self, slot: SlotId, gen: int, run_id: str) -> None:
        self._apply(Recorded(self.clock(), slot, gen, run_id))
        reach("recorded")
        with bind(run=run_id):
            log.info("worker launched", token=self._request(slot, gen).token)

    def _request(self, slot: SlotId, gen: int) -> RunRequest:
        return RunRequest(group=slot.group, slot=slot.index, gen=gen, config=self.config)

    def _log_of(self, run_id: str | None) -> str:
        return self.launcher.log_of(run_id) if run_id else ""

    def _apply(self, event: Event) -> Applied:
        return apply(self.store, event, self.policy)

    def _matters(self, event: Event, rows: Rows) -> bool:
        """Would the event change anything, as far as these rows tell? Spares the store what changes nothing."""
        decided = step(rows, event, self.policy)
        return decided.row is not None or bool(decided.actions)

    def _count_notice(self, table: str, applied: Applied) -> None:
        if not isinstance(applied.after, TableRow):
            return
        before = applied.before if isinstance(applied.before, TableRow) else TableRow(table)
        if applied.after.dirty > before.dirty:
            self.metrics.count(names.NOTICES, table=table)
            moved = applied.after.noticed_head != before.noticed_head
            happened = "changelog moved" if moved else "merged long ago, looking again"
            log.info(happened, notices=applied.after.dirty - applied.after.covered)
            if before.dirty > before.covered:
                self.metrics.count(names.COALESCED, table=table)
