"""The trigger's effects: look at heads, dispatch, launch, recover. All decisions are `icemirror.state.step`'s."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from icemirror.crash import reach
from icemirror.errors import IcemirrorError, Transient
from icemirror.result import ErrorResult
from icemirror.run_request import RunRequest
from icemirror.settings import TableSettings
from icemirror.state.actions import Action, Cancel, Launch
from icemirror.state.apply import Applied, apply
from icemirror.state.configured import terms_of
from icemirror.state.events import Dispatch, Event, Looked, LookFailed, Recorded, Recover, RunState, Unown
from icemirror.state.policy import Policy
from icemirror.state.reads import EVERYTHING
from icemirror.state.rows import Rows, SlotRow, SlotState, TableRow
from icemirror.state.store import Store
from icemirror.telemetry import names
from icemirror.telemetry.logs import bind, get_log
from icemirror.telemetry.metrics import Metrics
from trigger.heads.source import Head
from trigger.launchers.launcher import Launcher
from trigger.registry import Registry

log = get_log(__name__)


@dataclass
class Fleet:
    """Keeps the tables of a registry served. Every method may be called at any time, by any number of processes."""

    registry: Registry
    store: Store
    policy: Policy
    launcher: Launcher
    config: str
    metrics: Metrics
    clock: Callable[[], float] = time.time
    _seen: dict[str, str] = field(default_factory=dict)

    def sweep(self) -> Rows:
        """One round: look at every head, recover what died, launch what is wanted; the rows afterwards."""
        heads = self.registry.heads()
        for table in self.registry.tables:
            self.look(table, heads[table.name])
        self.recover()
        for group in self.registry.groups:
            self.dispatch(group)
        return self.store.load(EVERYTHING)

    def look(self, table: TableSettings, head: Head) -> None:
        """13. Compares the changelog's head with what was noticed last."""
        now, terms = self.clock(), terms_of(table)
        if isinstance(head, IcemirrorError):
            self._seen.pop(table.name, None)
            failure = ErrorResult(kind=head.kind, message=str(head))
            if self._apply(LookFailed(now, table.name, terms, failure)).after is not None:
                with bind(table=table.name):
                    log.warning("changelog cannot be looked at", reason=str(head))
            return
        if self._seen.get(table.name) == head:
            return
        reach("notice")
        applied = self._apply(Looked(now, table.name, terms, head))
        reach("noticed")
        self._seen[table.name] = head
        self._count_notice(table.name, applied)

    def dispatch(self, group: str) -> None:
        """2. Launches a worker if one is wanted."""
        applied = self._apply(Dispatch(self.clock(), group, self.registry.names(group)))
        reach("dispatched")
        self._act(applied.actions)

    def recover(self) -> None:
        """5, 6, 7. Frees what dead runs hold, and repeats launches that nobody recorded."""
        rows = self.store.load(EVERYTHING)
        for slot in rows.slots.values():
            if slot.state is not SlotState.FREE:
                self._recover(slot)
        for row in rows.tables.values():
            if row.owner is not None:
                self._apply(Unown(self.clock(), row.name, _jitter()))

    def _recover(self, slot: SlotRow) -> None:
        try:
            run = self.launcher.poll(slot.run_id) if slot.run_id else RunState.UNKNOWN
        except Transient as error:
            log.warning("run cannot be asked about", reason=str(error))
            return
        event = Recover(self.clock(), slot.id, slot.gen, slot.run_id, run, _jitter())
        applied = self._apply(event)
        reach("recovered")
        self._act(applied.actions)

    def _act(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case Launch(slot, gen):
                    request = RunRequest(group=slot.group, slot=slot.index, gen=gen, config=self.config)
                    reach("launch")
                    try:
                        run_id = self.launcher.launch(request)
                    except Transient as error:  # the lease of the launch ends, and it is repeated
                        log.warning("launch failed", reason=str(error))
                        continue
                    reach("launched")
                    self._apply(Recorded(self.clock(), slot, gen, run_id))
                    reach("recorded")
                    self.metrics.count(names.LAUNCHES)
                    with bind(run=run_id):
                        log.info("worker launched", token=request.token)
                case Cancel(run_id):
                    self.launcher.cancel(run_id)
                case _:
                    raise ValueError(f"{action} is nothing that a trigger does")

    def _apply(self, event: Event) -> Applied:
        return apply(self.store, event, self.policy)

    def _count_notice(self, table: str, applied: Applied) -> None:
        match applied.before, applied.after:
            case TableRow(dirty=was, covered=covered), TableRow(dirty=now) if now > was:
                self.metrics.count(names.NOTICES, table=table)
                if was > covered:
                    self.metrics.count(names.COALESCED, table=table)
            case None, TableRow():
                self.metrics.count(names.NOTICES, table=table)
            case _:
                pass


def _jitter() -> float:
    return random.random()  # noqa: S311 (spreads retries)
