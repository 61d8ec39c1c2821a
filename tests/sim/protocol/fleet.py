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
from tests.sim.protocol.world import ACTIVE, GROUP, Budget, Canonicalizer, Pool, Run, State, TableWorld

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
        self.names = [f"t{index}" for index in range(tables)]
        self.ids = [SlotId(GROUP, index) for index in range(slots)]
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
        self.canonicalize = Canonicalizer(
            self.tables,
            self.slots,
            self.workers,
            limited=limit is not None,
            strict=rule is step and not flaw,
            quiet=quiet,
            knowing=poison != "unknown" and not self.budget.old,
        )
        self.ended = self.canonicalize.end
        self._applied: dict[Hashable, tuple[tuple[int, ...], tuple[int, ...], Step]] = {}
        self._merged: dict[Hashable, int] = {}
        self._transitions: dict[Hashable, tuple[tuple[int, ...], tuple[int, ...], int, bool]] = {}

    def start(self) -> State:
        merged_head = f"{self.job_name}0"
        merged = [
            TableRow(name, group=GROUP, noticed_head="0", merged_head=merged_head) for name in self.names
        ]
        tables = tuple(self.tables.number(row) for row in merged)
        slots = tuple(self.slots.number(SlotRow(slot)) for slot in self.ids)
        return State(tables, slots, (), (), (TableWorld(),) * len(tables), self.budget)

    # --- the product's code, memoized -------------------------------------------------------------------------

    def apply(
        self, state: State, event: type[Event], *details: Any
    ) -> tuple[tuple[int, ...], tuple[int, ...], Step]:
        """Return tables, slots and the step after an event."""
        key = (state.tables, state.slots, event, details)
        found = self._applied.get(key)
        if found is None:
            found = self._applied[key] = self._apply(state, event(*details))
        return found

    def _apply(self, state: State, event: Event) -> tuple[tuple[int, ...], tuple[int, ...], Step]:
        tables, slots = (
            [self.tables[number] for number in state.tables],
            [self.slots[number] for number in state.slots],
        )
        rows = Rows(dict(zip(self.names, tables, strict=True)), dict(zip(self.ids, slots, strict=True)))
        result = self.rule(rows, event, self.policy)
        match result.row:
            case TableRow() as row:
                at = self.names.index(row.name)
                return put(state.tables, at, self.tables.number(row)), state.slots, result
            case SlotRow() as row:
                return state.tables, put(state.slots, row.id.index, self.slots.number(row)), result
            case _:
                return state.tables, state.slots, result

    def known(self, run: Run) -> frozenset[str] | None:
        """Return the tables that a run knows; None: all."""
        return frozenset(self.names[1:]) if run.old or self.poison == "unknown" else None

    def next_event(
        self, state: State, worker: int, names: frozenset[str] | None = None
    ) -> tuple[tuple[int, ...], tuple[int, ...], int, bool]:
        """Return tables, slots and the worker after its next event, and whether it got a table."""
        key = (state.tables, state.slots, worker, names)
        found = self._transitions.get(key)
        if found is None:
            before = self.workers[worker]
            event = next_event(before, WorkerInput(NOW, 1.0, names), self.limits)
            if self.flaw == "dirty read after the merge" and before.phase is Phase.COMPLETE and before.turn:
                assert isinstance(event, Completed)
                event = replace(event, dirty=self.tables[state.tables[int(before.turn.table[1:])]].dirty)
            tables, slots, result = self._apply(state, event)
            (answer,) = result.actions
            after = transition(before, event, answer, self.limits)
            if self.flaw == "no scan after freeing the slot" and after.phase is Phase.RESCAN:
                after = replace(after, phase=Phase.END)
            found = self._transitions[key] = (
                tables,
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

    def is_final(self, state: State) -> bool:
        """Return whether all work that needs no user is done."""
        slots = [self.slots[number] for number in state.slots]
        if state.calls or any(slot.state is not SlotState.FREE for slot in slots):
            return False
        if any(run.worker != self.ended for run in state.runs):
            return False
        if all(slot.quarantined for slot in slots):
            return True
        return all(
            self._done(self.tables[number], world)
            for number, world in zip(state.tables, state.worlds, strict=True)
        )

    def _done(self, row: TableRow, world: TableWorld) -> bool:
        merged = world.cursor == world.head and row.dirty == row.covered and row.replay is None
        return not world.hints and (row.paused or merged or (row.quarantined and row.replay is None))

    def violation(self, state: State) -> str:
        """Return the invariant that this state violates, or an empty string."""
        live, worked_on = 0, set()
        for run in state.runs:
            worker = self.workers[run.worker]
            if worker.phase is Phase.START:
                live += 1
            elif worker.phase not in (Phase.END, Phase.RESCAN) and not run.zombie:
                live += 1
                if not self.holds_slot(state, run, worker):
                    return "S2 healthy worker lost its slot"
                if worker.phase in WORK and worker.turn:
                    owner = self.tables[state.tables[int(worker.turn.table[1:])]].owner
                    if owner != worker.id.owner or worker.turn.table in worked_on:
                        return "S2 healthy worker works on a table that it does not own"
                    worked_on.add(worker.turn.table)
        if live > len(state.slots) + self.budget.forget - state.budget.forget:
            return "S3 more runs than slots"
        for number, world in zip(state.tables, state.worlds, strict=True):
            if self.tables[number].covered >= self.tables[number].dirty and world.cursor < world.noticed:
                return "S4 covered claims an unmerged commit"
            if why := self._replay_lost(self.tables[number], world):
                return why
        return ""

    def _replay_lost(self, row: TableRow, world: TableWorld) -> str:
        """Check that a requested replay stays in the row, as a notice, until it is done or reported as failed."""
        if row.replay is not None and row.dirty <= row.covered:
            return "S5 a replay waits unseen"
        waits = row.replay is not None and row.replay.id == str(world.wanted)
        last = row.last_replay
        given_up = last is not None and last.id == str(world.wanted) and last.outcome != "done"
        return "" if not world.wanted or waits or given_up else "S5 a replay is lost"

    def holds_slot(self, state: State, run: Run, worker: Worker) -> bool:
        slot = self.slots[state.slots[run.slot]]
        return slot.state in ACTIVE and slot.gen == worker.id.gen and slot.run_id == worker.id.run_id
