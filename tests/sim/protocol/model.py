"""Every interleaving of the trigger protocol within given bounds. Rules and workers are the product's code.

Every effect (one row by compare-and-set, one call of the launcher, one commit on the mirror) is one transition, and
a crash may fall between any two. There is no clock: the lease of a run that sends no heartbeat (queued, dead)
may expire at any time, that of a healthy worker only by the fault "zombie", after which it continues
unaware; back-off and quiet periods end at any time. Safety, in every state:
  S1 a mirror's cursor never moves back
  S2 a healthy (non-zombie) worker holds its slot and alone owns the table that it works on
  S3 queued and healthy runs <= slots (+ 1 for each token that the launcher forgot)
  S4 covered == dirty => the mirror contains everything up to the head at the last notice
  S5 a replay stays in its row, as a notice, until it is done, cancelled, or reported as failed
  S6 no worker takes a paused or quarantined table, or continues with a paused one
Liveness, without further faults and commits, from every reachable state:
  L1 every path that ends, ends in a final state: all merged, nothing dirty, slots free, no call pending
  L2 there is no cycle, so every path ends: no fairness is assumed, and launches are finite
"""

from __future__ import annotations

from dataclasses import replace

from icemirror.protocol.actions import Launch
from icemirror.protocol.due_tables import due_at, is_waiting
from icemirror.protocol.events import (
    Dispatch,
    HeadRead,
    Noticed,
    PauseRequested,
    RecoverSlot,
    RecoverTable,
    ReplayCancelled,
    ReplayRequested,
    ResumeRequested,
    RunRecorded,
    RunState,
    SchedulingOptions,
    WorkerId,
)
from icemirror.protocol.replay import Replay
from icemirror.protocol.rows import SlotRow, SlotState
from icemirror.protocol.worker import Worker
from tests.sim.protocol.fleet import NOW, put
from tests.sim.protocol.runs import HEADS, Runs, Transition, Violation
from tests.sim.protocol.world import ACTIVE, GROUP, Call, Run, State, TableWorld, run_id

LATE, LONG_AGO, NEXT_DAY = 10.0, -10.0, 1_000.0
OPTIONS = SchedulingOptions(GROUP)


class Model(Runs):
    """A fleet and the world around it: commits, hints, triggers, a launcher, mirrors, faults."""

    def successors(self, state: State) -> list[Transition]:
        successors: list[Transition] = []
        self._hints(state, successors)
        self._dispatch(state, successors)
        self._calls(state, successors)
        if self.sweep:
            self._recover(state, successors)
        for position, run in enumerate(state.runs):
            if run.worker != self.ended:
                self._run(state, position, run, successors)
        return (
            [self._check_quarantine(state, transition) for transition in successors]
            if self.limit
            else successors
        )

    def _check_quarantine(self, state: State, transition: Transition) -> Transition:
        """Check that only the user lifts a quarantine."""
        fault, label, new = transition
        if label.startswith(("resume", "replay")) or isinstance(new, Violation) or new.tables == state.tables:
            return transition
        both = zip(state.tables, new.tables, strict=True)
        if any(self.tables[old].quarantined and not self.tables[now].quarantined for old, now in both):
            return fault, label, Violation("S6 a quarantine ends by itself")
        return transition

    def _hints(self, state: State, successors: list[Transition]) -> None:
        """Add commits, hints, polls of heads, and the passing of time."""
        for index, (world, name) in enumerate(zip(state.worlds, self.names, strict=True)):
            committed = world._replace(head=world.head + 1, hints=0 if self.watch else world.hints + 1)
            self._fault(
                state, successors, f"commit{index}", "commit", worlds=put(state.worlds, index, committed)
            )
            if world.hints and len(state.calls) < self.triggers:
                self._hint(state, index, world, successors)
            row = self.tables[state.tables[index]]
            if self.sweep and self.repair and (self.every_poll or row.dirty == row.covered):
                tables, _, _ = self.apply(state, HeadRead, NOW, name, OPTIONS, HEADS[world.head])
                if tables != state.tables:
                    seen = put(state.worlds, index, world._replace(noticed=world.head))
                    successors.append((False, f"poll{index}", state._replace(tables=tables, worlds=seen)))
            if world.cursor:  # the mirror is dropped or rolled back: no notice covers its old rows
                lost = put(state.worlds, index, world._replace(cursor=0, noticed=0))
                self._fault(state, successors, f"rollback{index}", "rollback", worlds=lost)
            self._recheck(state, index, world, successors)
            if state.budget.resume:
                resumed = put(state.worlds, index, world._replace(noticed=world.head))
                tables, _, _ = self.apply(state, ResumeRequested, NOW, name)
                self._fault(state, successors, f"resume{index}", "resume", tables=tables, worlds=resumed)
                if self.tables[tables[index]].quarantined or self.tables[tables[index]].paused:
                    successors.append(
                        (True, f"resume{index}", Violation("S6 a table that was resumed is not taken"))
                    )
            self._user_actions(state, index, world, successors)
            if row.not_before or (is_waiting(row) and due_at(row, NOW, self.policy) > NOW):
                later = replace(row, not_before=0.0, first_dirty_at=LONG_AGO, last_dirty_at=LONG_AGO)
                later = later if self.quiet else replace(row, not_before=0.0)
                successors.append(
                    (
                        False,
                        f"elapse{index}",
                        state._replace(tables=put(state.tables, index, self.tables.number(later))),
                    )
                )
            if self.sweep and row.owner:
                tables, _, _ = self.apply(state, RecoverTable, NOW, name, 1.0)
                if tables != state.tables:
                    successors.append((False, f"unown{index}", state._replace(tables=tables)))

    def _user_actions(
        self, state: State, index: int, world: TableWorld, successors: list[Transition]
    ) -> None:
        """The user pauses the table, requests a replay, or cancels it."""
        name, waiting = self.names[index], self.tables[state.tables[index]].replay
        if state.budget.pause:
            self._fault(
                state,
                successors,
                f"pause{index}",
                "pause",
                tables=self.apply(state, PauseRequested, NOW, name)[0],
            )
        if state.budget.replay:
            number = self.budget.replay - state.budget.replay + 1
            request = Replay(str(number), NOW)
            tables, _, result = self.apply(state, ReplayRequested, NOW, name, OPTIONS, request)
            if waiting is not None and tables != state.tables:
                successors.append((True, f"replay{index}", Violation("S5 a replay is lost")))
            elif not result.actions:  # else it was refused
                requested = world._replace(wanted=number, half=0, noticed=world.head)
                self._fault(
                    state,
                    successors,
                    f"replay{index}",
                    "replay",
                    tables=tables,
                    worlds=put(state.worlds, index, requested),
                )
        if state.budget.cancel and waiting is not None:
            tables, _, _ = self.apply(state, ReplayCancelled, NOW, name, waiting.id)
            self._fault(state, successors, f"cancel{index}", "cancel", tables=tables)

    def _recheck(self, state: State, index: int, world: TableWorld, successors: list[Transition]) -> None:
        """Read the head long after the last merge: always after a rollback of the mirror, else as often as allowed."""
        if not self.sweep or not self.repair:
            return
        name, head = self.names[index], HEADS[world.head]
        tables, _, _ = self.apply(state, HeadRead, NEXT_DAY, name, OPTIONS, head)
        if tables == state.tables or self.apply(state, HeadRead, NOW, name, OPTIONS, head)[0] != state.tables:
            return
        noticed = replace(self.tables[tables[index]], first_dirty_at=NOW, last_dirty_at=NOW)
        after = state._replace(
            tables=put(tables, index, self.tables.number(noticed)),
            worlds=put(state.worlds, index, world._replace(noticed=world.head)),
        )
        if world.cursor < world.head:
            successors.append((False, f"recheck{index}", after))
        else:
            self._fault(
                state, successors, f"recheck{index}", "recheck", tables=after.tables, worlds=after.worlds
            )

    def _hint(self, state: State, index: int, world: TableWorld, successors: list[Transition]) -> None:
        tables = self._noticed(state, index)
        received, seen = world._replace(hints=world.hints - 1), world._replace(noticed=world.head)
        after = state.calls if self.sweep else tuple(sorted((*state.calls, ("dispatch",))))
        if self.flaw == "acknowledge before notice":
            calls = tuple(sorted((*state.calls, ("notice", index))))
            successors.append(
                (False, f"ack{index}", state._replace(worlds=put(state.worlds, index, received), calls=calls))
            )
        else:
            worlds = put(state.worlds, index, received._replace(noticed=world.head))
            successors.append(
                (False, f"notice{index}", state._replace(tables=tables, worlds=worlds, calls=after))
            )
        worlds = put(state.worlds, index, seen)
        self._fault(
            state, successors, f"notice{index}, no ack", "dup", tables=tables, worlds=worlds, calls=after
        )
        self._fault(state, successors, f"lose{index}", "lose", worlds=put(state.worlds, index, received))

    def _noticed(self, state: State, index: int) -> tuple[int, ...]:
        head = None if self.blind_hints else HEADS[state.worlds[index].head]
        return self.apply(state, Noticed, NOW, self.names[index], OPTIONS, head)[0]

    def _dispatch(self, state: State, successors: list[Transition]) -> None:
        """Dispatch at any time with a sweep; without one, once after each notice."""
        calls = state.calls
        if not self.sweep:
            if ("dispatch",) not in calls:
                return
            at = calls.index(("dispatch",))
            calls = calls[:at] + calls[at + 1 :]
        _, slots, result = self.apply(state, Dispatch, NOW, GROUP)
        match result.actions:
            case (Launch(slot, gen),) if len(calls) < self.triggers:
                calls = tuple(sorted((*calls, ("launch", slot.index, gen))))
                successors.append((False, f"take{slot.index}", state._replace(slots=slots, calls=calls)))
            case () if not self.sweep:
                successors.append((False, "dispatch: nothing to do", state._replace(calls=calls)))

    def _calls(self, state: State, successors: list[Transition]) -> None:
        """Add the effects of a trigger between two rows: calls of the launcher, and their results."""
        for position, call in enumerate(state.calls):
            rest = state.calls[:position] + state.calls[position + 1 :]
            self._fault(state, successors, "trigger crash", "wcrash", calls=rest)
            match call:
                case ("notice", index):
                    worlds = put(
                        state.worlds, index, state.worlds[index]._replace(noticed=state.worlds[index].head)
                    )
                    late = state._replace(tables=self._noticed(state, index), worlds=worlds, calls=rest)
                    successors.append((False, "late notice", late))
                case ("launch", index, gen):
                    self._launch(state, index, gen, rest, successors)
                case ("record", index, gen, copy):
                    _, slots, _ = self.apply(state, RunRecorded, NOW, self.ids[index], gen, run_id(gen, copy))
                    successors.append((False, "record", state._replace(slots=slots, calls=rest)))

    def _launch(
        self, state: State, index: int, gen: int, rest: tuple[Call, ...], successors: list[Transition]
    ) -> None:
        same = [run for run in state.runs if (run.slot, run.token_gen) == (index, gen)]
        copy = len(same)
        new = Run(
            index, gen, copy, self.workers.number(Worker(WorkerId(self.ids[index], gen, run_id(gen, copy))))
        )

        def answered(copy: int) -> tuple[Call, ...]:
            return tuple(sorted((*rest, ("record", index, gen, copy))))

        if self.poison == "noanswer":
            successors.append((False, "launch: no answer", state._replace(calls=rest)))
            return
        if not same:
            successors.append((False, "launch", state._replace(runs=(*state.runs, new), calls=answered(0))))
            old = (*state.runs, new._replace(old=1))
            self._fault(state, successors, "launch: older settings", "old", runs=old, calls=answered(0))
            return
        successors.append((False, "launch: same run", state._replace(calls=answered(0))))
        self._fault(
            state,
            successors,
            "launch: token forgotten",
            "forget",
            runs=(*state.runs, new),
            calls=answered(copy),
        )

    def _recover(self, state: State, successors: list[Transition]) -> None:
        for index, number in enumerate(state.slots):
            slot = self.slots[number]
            if slot.state is SlotState.FREE:
                continue
            if slot.run_id is None:
                if ("launch", index, slot.gen) in state.calls[1:]:  # two pending launches are enough
                    continue
                found, now = RunState.UNKNOWN, LATE
            else:
                found, now = self._poll(state, index, slot)
            tables, slots, result = self.apply(
                state, RecoverSlot, now, self.ids[index], slot.gen, slot.run_id, found, 1.0
            )
            if self.flaw == "terminal run advances covered" and slots != state.slots:
                tables = tuple(self._covered(position, index, slot.gen) for position in state.tables)
            launches = [action for action in result.actions if isinstance(action, Launch)]
            if launches and len(state.calls) >= self.triggers:
                continue
            calls = tuple(sorted((*state.calls, *(("launch", index, action.gen) for action in launches))))
            label = f"relaunch{index}" if launches else f"free slot{index}"
            successors.append((False, label, state._replace(tables=tables, slots=slots, calls=calls)))

    def _poll(self, state: State, index: int, slot: SlotRow) -> tuple[RunState, float]:
        """Return the launcher's state of the slot's run, and a time at which a lease may have expired."""
        runs = [run for run in state.runs if run.slot == index]
        run = next((run for run in runs if run_id(run.token_gen, run.copy) == slot.run_id), None)
        if self.flaw == "slot polled by token, not run id" and slot.state in ACTIVE:
            run = next((run for run in runs if run.token_gen == slot.gen and run.worker == self.ended), run)
        if run is None or run.worker == self.ended:
            return RunState.ENDED, NOW
        if slot.state is SlotState.LAUNCHING:
            return RunState.QUEUED, LATE
        return RunState.RUNNING, LATE if run.zombie else NOW

    def _covered(self, number: int, index: int, gen: int) -> int:
        row = self.tables[number]
        if row.owner and (row.owner.slot.index, row.owner.gen) == (index, gen):
            return self.tables.number(replace(row, covered=row.dirty, owner=None))
        return number
