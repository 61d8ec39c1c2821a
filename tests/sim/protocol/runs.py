"""The steps of a run: take its slot, pick, merge, replay; it may die at any point."""

from __future__ import annotations

from typing import Any, NamedTuple

from icemirror.errors import Kind
from icemirror.protocol.replay import Replay, ReplayProgress
from icemirror.protocol.worker import (
    MergeConflict,
    MergedToHead,
    MergeFailed,
    MergeOutcome,
    Phase,
    ReplayDone,
    SliceDone,
    Worker,
    after_fencing,
)
from icemirror.result import ErrorResult
from tests.sim.protocol.fleet import Fleet, put
from tests.sim.protocol.world import Run, State

FAILURE = ErrorResult(kind=Kind.TRANSIENT, message="")
BLOCKING = ErrorResult(kind=Kind.INVALID, message="")
HALF = ReplayProgress(mark="half")
HEADS = [str(head) for head in range(100)]
Transition = tuple[bool, str, Any]  # (is a fault, label, State or Violation)


class Violation(NamedTuple):
    """A transition that must not be possible."""

    why: str


class Runs(Fleet):
    """A fleet with the steps of its workers."""

    def _fault(
        self, state: State, successors: list[Transition], label: str, field: str, **changes: Any
    ) -> None:
        left = getattr(state.budget, field)
        if left:
            successors.append(
                (True, label, state._replace(budget=state.budget._replace(**{field: left - 1}), **changes))
            )

    def _run(self, state: State, position: int, run: Run, successors: list[Transition]) -> None:
        worker = self.workers[run.worker]
        ended = put(state.runs, position, Run(run.slot, run.token_gen, run.copy, self.ended))
        if worker.phase is Phase.START:
            if self.poison == "nostart":
                successors.append((False, "never started", state._replace(runs=ended)))
                return
            self._fault(state, successors, "never started", "nostart", runs=ended)
            self._step(state, position, run, successors)
            return
        self._fault(state, successors, f"dies j{run.slot}", "crash", runs=ended)
        if not run.zombie and worker.phase is not Phase.RESCAN:
            self._fault(
                state,
                successors,
                f"zombie j{run.slot}",
                "zombie",
                runs=put(state.runs, position, run._replace(zombie=1)),
            )
        if worker.phase is Phase.MERGE:
            if not self.holds_slot(state, run, worker):
                stopped = self._with(state, position, run, self.workers.number(after_fencing(worker)))
                successors.append((False, f"heartbeat fenced j{run.slot}", stopped))
            self._merge(state, position, run, worker, successors)
        elif worker.phase is Phase.HEARTBEAT and self.poison == "diestart":
            successors.append((False, f"dies j{run.slot}", state._replace(runs=ended)))
        elif worker.phase is Phase.PICK:
            known = self.known(run)
            candidates = [name for name in self.names if known is None or name in known]
            claims = [self._step(state, position, run, successors, frozenset({name})) for name in candidates]
            if not any(claims):
                self._step(state, position, run, successors)
        else:
            self._step(state, position, run, successors)

    def _step(
        self,
        state: State,
        position: int,
        run: Run,
        successors: list[Transition],
        names: frozenset[str] | None = None,
    ) -> bool:
        """One step of a worker; with `names`, only if it gets one of those tables (in any order)."""
        tables, slots, worker, got_table = self.next_event(state, run.worker, names or self.known(run))
        if names is not None and not got_table:
            return False
        if got_table and (why := self._forbidden(state, worker)):
            successors.append((False, "take", Violation(why)))
            return True
        after = run._replace(
            worker=worker, at="locate" if got_table else "", located_cursor=0, planned_head=0
        )
        label = f"{self.workers[run.worker].phase} j{run.slot} {','.join(names or ())}"
        successors.append(
            (False, label, state._replace(tables=tables, slots=slots, runs=put(state.runs, position, after)))
        )
        return True

    def _forbidden(self, state: State, worker: int) -> str:
        """Return why a worker must not have got its table."""
        turn = self.workers[worker].turn
        row = self.tables[state.tables[int(turn.table[1:])]] if turn else None
        if row is not None and row.paused:
            return "S6 a paused table is worked on"
        return "S6 a quarantined table is taken" if row is not None and row.quarantined else ""

    def _with(self, state: State, position: int, run: Run, worker: int, **changes: Any) -> State:
        after = Run(run.slot, run.token_gen, run.copy, worker, "", run.zombie, run.old)
        return state._replace(runs=put(state.runs, position, after), **changes)

    def _merge(
        self, state: State, position: int, run: Run, worker: Worker, successors: list[Transition]
    ) -> None:
        """Add a step of `advance`: locate on the mirror, load the changelog's head and plan, or commit."""
        index = int(worker.turn.table[1:]) if worker.turn else -1
        world = state.worlds[index]
        early = self.flaw == "head loaded before locating"

        def add(label: str, following: State) -> None:
            successors.append((False, f"{label} j{run.slot}", following))

        def after(outcome: MergeOutcome, **changes: Any) -> State:
            return self._with(state, position, run, self.merged(run.worker, outcome), **changes)

        if run.at in ("load head", "commit", "replay"):
            failed, blocked = after(MergeFailed(FAILURE)), after(MergeFailed(BLOCKING))
            self._fault(state, successors, f"merge fails j{run.slot}", "fail", runs=failed.runs)
            self._fault(state, successors, f"merge is blocked j{run.slot}", "invalid", runs=blocked.runs)
        if run.at == "locate" and worker.turn and worker.turn.replay:
            add(
                "locate",
                state._replace(
                    runs=put(state.runs, position, run._replace(at="replay", located_cursor=world.cursor))
                ),
            )
        elif run.at == "replay" and worker.turn and worker.turn.replay:
            self._replay(state, position, run, worker.turn.replay, successors)
        elif run.at == "locate":
            located_cursor = world.head if early else world.cursor
            add(
                "locate",
                state._replace(
                    runs=put(
                        state.runs, position, run._replace(at="load head", located_cursor=located_cursor)
                    )
                ),
            )
        elif run.at == "load head":
            located_cursor, planned_head = (
                (world.cursor, run.located_cursor) if early else (run.located_cursor, world.head)
            )
            if located_cursor == planned_head:
                add("empty plan", after(MergedToHead(self.job_name + HEADS[planned_head])))
            else:
                add(
                    "plan",
                    state._replace(
                        runs=put(
                            state.runs,
                            position,
                            run._replace(
                                at="commit", located_cursor=located_cursor, planned_head=planned_head
                            ),
                        )
                    ),
                )
        elif self.poison == "kill" and index == 0:
            add(
                "dies",
                state._replace(
                    runs=put(state.runs, position, Run(run.slot, run.token_gen, run.copy, self.ended))
                ),
            )
        elif self.poison == "raise" and index == 0:
            add("merge fails", after(MergeFailed(FAILURE)))
        elif world.cursor != run.located_cursor and self.flaw != "no mirror fence":
            add("mirror fenced: plan again", after(MergeConflict(FAILURE)))
        elif run.planned_head < world.cursor:
            successors.append((False, "mirror commit", Violation("S1 cursor moves back")))
        else:
            worlds = put(state.worlds, index, world._replace(cursor=run.planned_head))
            add("mirror commit", after(SliceDone(), worlds=worlds))

    def _replay(
        self, state: State, position: int, run: Run, replay: Replay, successors: list[Transition]
    ) -> None:
        """Add one of the two slices of a replay, on the mirror as it was located."""
        worker = self.workers[run.worker]
        index = int(worker.turn.table[1:]) if worker.turn else -1
        world = state.worlds[index]

        def add(label: str, outcome: MergeOutcome, **changes: Any) -> None:
            after = self._with(state, position, run, self.merged(run.worker, outcome), **changes)
            successors.append((False, f"{label} j{run.slot}", after))

        if self.poison == "replay kills" and index == 0:
            dead = put(state.runs, position, Run(run.slot, run.token_gen, run.copy, self.ended))
            successors.append((False, f"dies j{run.slot}", state._replace(runs=dead)))
        elif self.poison == "replay raises" and index == 0:
            add("replay fails", MergeFailed(FAILURE))
        elif world.cursor != run.located_cursor:
            add("mirror fenced: plan again", MergeConflict(FAILURE))
        elif world.wanted != int(replay.id):  # done or cancelled before: it changes nothing
            add("replay again", ReplayDone())
        elif replay.progress is None:
            add("replay half", SliceDone(HALF), worlds=put(state.worlds, index, world._replace(half=1)))
        elif not world.half:
            successors.append(
                (False, "replay", Violation("S5 a replay continues from the progress of another"))
            )
        else:
            add(
                "replay rest",
                ReplayDone(HALF),
                worlds=put(state.worlds, index, world._replace(wanted=0, half=0)),
            )
