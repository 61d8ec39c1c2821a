"""Tables, slots and workers, changed by the product's code, and their invariants."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from icemirror.protocol.actions import MergeTable
from icemirror.protocol.events import Completed, Event
from icemirror.protocol.policy import Policy
from icemirror.protocol.rows import Rows, SlotId, SlotRow, SlotState, TableRow
from icemirror.protocol.step import Step, step
from icemirror.protocol.worker import (
    MergeOutcome,
    Phase,
    Worker,
    WorkerInput,
    WorkerLimits,
    after_merge,
    next_event,
    transition,
)
from tests.sim.protocol.world import ACTIVE, GROUP, Budget, Canon, Env, Pool, Run, State

NOW = 0.0
WORK = (Phase.MERGE, Phase.REPORT, Phase.REPLAYED, Phase.COMPLETE, Phase.FAIL)
Rule = Callable[[Rows, Event, Policy], Step]


def put(items: tuple[Any, ...], at: int, item: Any) -> tuple[Any, ...]:
    """Return the tuple with another item at this position."""
    return (*items[:at], item, *items[at + 1 :])


class Fleet:
    """The bounds, and a planted defect: `rule` replaces `step`, `flaw` names a defect outside of it."""

    def __init__(
        self,
        *,
        tables: int = 1,
        slots: int = 1,
        triggers: int = 2,
        eager: bool = False,
        sweep: bool = True,
        repair: bool = True,
        limit: int | None = None,
        poison: str = "",
        short_turns: bool = False,
        quiet: bool = False,
        watch: bool = False,
        every_poll: bool = False,
        blind_hints: bool = False,
        two_names: bool = False,
        rule: Rule = step,
        flaw: str = "",
        **budget: int,
    ) -> None:
        self.names = [f"t{i}" for i in range(tables)]
        self.ids = [SlotId(GROUP, i) for i in range(slots)]
        self.triggers, self.sweep, self.repair, self.poison = triggers, sweep, repair, poison
        self.watch, self.every_poll, self.blind_hints = watch, every_poll or watch, blind_hints
        self.job_name = "job:" if two_names else ""  # prefix of heads, as the job reads them
        self.limit, self.quiet, self.rule, self.flaw = limit, quiet, rule, flaw
        self.policy = Policy(
            slots=slots,
            lease_seconds=1.0,
            launch_lease_seconds=1.0,
            max_failures=limit or 1_000_000,
            quiet_seconds=float(quiet),
            max_wait_seconds=float(quiet),
            scale_out_seconds=0.0 if eager else math.inf,
            backoff_seconds=1.0,
            backoff_factor=1.0,
            probation_seconds=math.inf,
            recheck_seconds=100.0,
        )
        self.limits = WorkerLimits(
            linger_seconds=0.0, max_slices_per_turn=1 if short_turns else 1_000_000, max_conflicts=1_000_000
        )
        self.budget = Budget(**budget)
        self.tables: Pool[TableRow] = Pool()
        self.slots: Pool[SlotRow] = Pool()
        self.workers: Pool[Worker] = Pool()
        self.canon = Canon(
            self.tables,
            self.slots,
            self.workers,
            limited=limit is not None,
            strict=rule is step and not flaw,
            quiet=quiet,
            knowing=poison != "unknown" and not self.budget.old,
        )
        self._applied: dict[Hashable, tuple[tuple[int, ...], tuple[int, ...], Step]] = {}
        self._merged: dict[Hashable, int] = {}
        self._transitions: dict[Hashable, tuple[tuple[int, ...], tuple[int, ...], int, bool]] = {}

    def start(self) -> State:
        merged_head = f"{self.job_name}0"
        merged = [
            TableRow(name, group=GROUP, noticed_head="0", merged_head=merged_head) for name in self.names
        ]
        tabs = tuple(self.tables.number(row) for row in merged)
        slots = tuple(self.slots.number(SlotRow(slot)) for slot in self.ids)
        return State(tabs, slots, (), (), (Env(),) * len(tabs), self.budget)

    # --- the product's code, memoized -------------------------------------------------------------------------

    def apply(
        self, s: State, event: type[Event], *details: Any
    ) -> tuple[tuple[int, ...], tuple[int, ...], Step]:
        """Return tables, slots and the step after an event."""
        key = (s.tabs, s.slots, event, details)
        found = self._applied.get(key)
        if found is None:
            found = self._applied[key] = self._apply(s, event(*details))
        return found

    def _apply(self, s: State, event: Event) -> tuple[tuple[int, ...], tuple[int, ...], Step]:
        tabs, slots = [self.tables[n] for n in s.tabs], [self.slots[n] for n in s.slots]
        rows = Rows(dict(zip(self.names, tabs, strict=True)), dict(zip(self.ids, slots, strict=True)))
        result = self.rule(rows, event, self.policy)
        match result.row:
            case TableRow() as row:
                at = self.names.index(row.name)
                return put(s.tabs, at, self.tables.number(row)), s.slots, result
            case SlotRow() as row:
                return s.tabs, put(s.slots, row.id.index, self.slots.number(row)), result
            case _:
                return s.tabs, s.slots, result

    def known(self, r: Run) -> frozenset[str] | None:
        """Return the tables that a run knows; None: all."""
        return frozenset(self.names[1:]) if r.old or self.poison == "unknown" else None

    def next_event(
        self, s: State, worker: int, names: frozenset[str] | None = None
    ) -> tuple[tuple[int, ...], tuple[int, ...], int, bool]:
        """Return tables, slots and the worker after its next event, and whether it got a table."""
        key = (s.tabs, s.slots, worker, names)
        found = self._transitions.get(key)
        if found is None:
            w = self.workers[worker]
            event = next_event(w, WorkerInput(NOW, 1.0, names), self.limits)
            if self.flaw == "dirty read after the merge" and w.phase is Phase.COMPLETE and w.turn:
                assert isinstance(event, Completed)
                event = replace(event, dirty=self.tables[s.tabs[int(w.turn.table[1:])]].dirty)
            tabs, slots, result = self._apply(s, event)
            (answer,) = result.actions
            after = transition(w, event, answer, self.limits)
            if self.flaw == "no scan after freeing the slot" and after.phase is Phase.RESCAN:
                after = replace(after, phase=Phase.END)
            found = self._transitions[key] = (
                tabs,
                slots,
                self.workers.number(after),
                isinstance(answer, MergeTable),
            )
        return found

    def merged(self, worker: int, outcome: MergeOutcome) -> int:
        """Return the worker after a merge."""
        key = (worker, outcome)
        found = self._merged.get(key)
        if found is None:
            after = after_merge(self.workers[worker], outcome, self.limits)
            found = self._merged[key] = self.workers.number(after)
        return found

    # --- properties --------------------------------------------------------------------------------------------

    def is_final(self, s: State) -> bool:
        """Return whether all work that needs no user is done."""
        slots = [self.slots[n] for n in s.slots]
        if s.pcs or any(x.state is not SlotState.FREE for x in slots):
            return False
        if any(r.worker != self.canon.end for r in s.runs):
            return False
        if all(x.quarantined for x in slots):
            return True
        return all(self._done(self.tables[n], e) for n, e in zip(s.tabs, s.envs, strict=True))

    def _done(self, t: TableRow, e: Env) -> bool:
        merged = e.cursor == e.head and t.dirty == t.covered and t.replay is None
        return not e.hints and (t.paused or merged or (t.quarantined and t.replay is None))

    def violation(self, s: State) -> str:
        """Return the invariant that this state violates, or an empty string."""
        live, worked_on = 0, set()
        for r in s.runs:
            w = self.workers[r.worker]
            if w.phase is Phase.START:
                live += 1
            elif w.phase not in (Phase.END, Phase.RESCAN) and not r.zombie:
                live += 1
                if not self.holds_slot(s, r, w):
                    return "S2 healthy worker lost its slot"
                if w.phase in WORK and w.turn:
                    owner = self.tables[s.tabs[int(w.turn.table[1:])]].owner
                    if owner != w.id.owner or w.turn.table in worked_on:
                        return "S2 healthy worker works on a table that it does not own"
                    worked_on.add(w.turn.table)
        if live > len(s.slots) + self.budget.forget - s.bud.forget:
            return "S3 more runs than slots"
        for n, e in zip(s.tabs, s.envs, strict=True):
            if self.tables[n].covered >= self.tables[n].dirty and e.cursor < e.noticed:
                return "S4 covered claims an unmerged commit"
            if why := self._replay_lost(self.tables[n], e):
                return why
        return ""

    def _replay_lost(self, t: TableRow, e: Env) -> str:
        """Check that a requested replay stays in the row, as a notice, until it is done or reported as failed."""
        if t.replay is not None and t.dirty <= t.covered:
            return "S5 a replay waits unseen"
        waits = t.replay is not None and t.replay.id == str(e.wanted)
        last = t.last_replay
        given_up = last is not None and last.id == str(e.wanted) and last.outcome != "done"
        return "" if not e.wanted or waits or given_up else "S5 a replay is lost"

    def holds_slot(self, s: State, r: Run, w: Worker) -> bool:
        x = self.slots[s.slots[r.slot]]
        return x.state in ACTIVE and x.gen == w.id.gen and x.run_id == w.id.run_id
