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

    def _fault(self, s: State, out: list[Transition], label: str, field: str, **changes: Any) -> None:
        left = getattr(s.bud, field)
        if left:
            out.append((True, label, s._replace(bud=s.bud._replace(**{field: left - 1}), **changes)))

    def _run(self, s: State, n: int, r: Run, out: list[Transition]) -> None:
        w = self.workers[r.worker]
        ended = put(s.runs, n, Run(r.slot, r.tgen, r.k, self.canon.end))
        if w.phase is Phase.START:
            if self.poison == "nostart":
                out.append((False, "never started", s._replace(runs=ended)))
                return
            self._fault(s, out, "never started", "nostart", runs=ended)
            self._step(s, n, r, out)
            return
        self._fault(s, out, f"dies j{r.slot}", "crash", runs=ended)
        if not r.zombie and w.phase is not Phase.RESCAN:
            self._fault(s, out, f"zombie j{r.slot}", "zombie", runs=put(s.runs, n, r._replace(zombie=1)))
        if w.phase is Phase.MERGE:
            if not self.holds_slot(s, r, w):
                stopped = self._with(s, n, r, self.workers.number(after_fencing(w)))
                out.append((False, f"heartbeat fenced j{r.slot}", stopped))
            self._merge(s, n, r, w, out)
        elif w.phase is Phase.HEARTBEAT and self.poison == "diestart":
            out.append((False, f"dies j{r.slot}", s._replace(runs=ended)))
        elif w.phase is Phase.PICK:
            known = self.known(r)
            candidates = [name for name in self.names if known is None or name in known]
            claims = [self._step(s, n, r, out, frozenset({name})) for name in candidates]
            if not any(claims):
                self._step(s, n, r, out)
        else:
            self._step(s, n, r, out)

    def _step(
        self, s: State, n: int, r: Run, out: list[Transition], names: frozenset[str] | None = None
    ) -> bool:
        """One step of a worker; with `names`, only if it gets one of those tables (in any order)."""
        tabs, slots, worker, got_table = self.next_event(s, r.worker, names or self.known(r))
        if names is not None and not got_table:
            return False
        if got_table and (why := self._forbidden(s, worker)):
            out.append((False, "take", Violation(why)))
            return True
        after = r._replace(worker=worker, at="C" if got_table else "", loc=0, h=0)
        label = f"{self.workers[r.worker].phase} j{r.slot} {','.join(names or ())}"
        out.append((False, label, s._replace(tabs=tabs, slots=slots, runs=put(s.runs, n, after))))
        return True

    def _forbidden(self, s: State, worker: int) -> str:
        """Return why a worker must not have got its table."""
        turn = self.workers[worker].turn
        row = self.tables[s.tabs[int(turn.table[1:])]] if turn else None
        if row is not None and row.paused:
            return "S6 a paused table is worked on"
        return "S6 a quarantined table is taken" if row is not None and row.quarantined else ""

    def _with(self, s: State, n: int, r: Run, worker: int, **changes: Any) -> State:
        after = Run(r.slot, r.tgen, r.k, worker, "", r.zombie, r.old)
        return s._replace(runs=put(s.runs, n, after), **changes)

    def _merge(self, s: State, n: int, r: Run, w: Worker, out: list[Transition]) -> None:
        """Add a step of `advance`: locate on the mirror, load the changelog's head and plan, or commit."""
        i = int(w.turn.table[1:]) if w.turn else -1
        e = s.envs[i]
        early = self.flaw == "head loaded before locating"

        def add(label: str, state: State) -> None:
            out.append((False, f"{label} j{r.slot}", state))

        def after(outcome: MergeOutcome, **changes: Any) -> State:
            return self._with(s, n, r, self.merged(r.worker, outcome), **changes)

        if r.at in ("H", "M", "R"):
            failed, blocked = after(MergeFailed(FAILURE)), after(MergeFailed(BLOCKING))
            self._fault(s, out, f"merge fails j{r.slot}", "fail", runs=failed.runs)
            self._fault(s, out, f"merge is blocked j{r.slot}", "invalid", runs=blocked.runs)
        if r.at == "C" and w.turn and w.turn.replay:
            add("locate", s._replace(runs=put(s.runs, n, r._replace(at="R", loc=e.cursor))))
        elif r.at == "R" and w.turn and w.turn.replay:
            self._replay(s, n, r, w.turn.replay, out)
        elif r.at == "C":
            loc = e.head if early else e.cursor
            add("locate", s._replace(runs=put(s.runs, n, r._replace(at="H", loc=loc))))
        elif r.at == "H":
            loc, h = (e.cursor, r.loc) if early else (r.loc, e.head)
            if loc == h:
                add("empty plan", after(MergedToHead(self.job_name + HEADS[h])))
            else:
                add("plan", s._replace(runs=put(s.runs, n, r._replace(at="M", loc=loc, h=h))))
        elif self.poison == "kill" and i == 0:
            add("dies", s._replace(runs=put(s.runs, n, Run(r.slot, r.tgen, r.k, self.canon.end))))
        elif self.poison == "raise" and i == 0:
            add("merge fails", after(MergeFailed(FAILURE)))
        elif e.cursor != r.loc and self.flaw != "no mirror fence":
            add("mirror fenced: plan again", after(MergeConflict(FAILURE)))
        elif r.h < e.cursor:
            out.append((False, "mirror commit", Violation("S1 cursor moves back")))
        else:
            envs = put(s.envs, i, e._replace(cursor=r.h))
            add("mirror commit", after(SliceDone(), envs=envs))

    def _replay(self, s: State, n: int, r: Run, replay: Replay, out: list[Transition]) -> None:
        """Add one of the two slices of a replay, on the mirror as it was located."""
        w = self.workers[r.worker]
        i = int(w.turn.table[1:]) if w.turn else -1
        e = s.envs[i]

        def add(label: str, outcome: MergeOutcome, **changes: Any) -> None:
            after = self._with(s, n, r, self.merged(r.worker, outcome), **changes)
            out.append((False, f"{label} j{r.slot}", after))

        if self.poison == "replay kills" and i == 0:
            dead = put(s.runs, n, Run(r.slot, r.tgen, r.k, self.canon.end))
            out.append((False, f"dies j{r.slot}", s._replace(runs=dead)))
        elif self.poison == "replay raises" and i == 0:
            add("replay fails", MergeFailed(FAILURE))
        elif e.cursor != r.loc:
            add("mirror fenced: plan again", MergeConflict(FAILURE))
        elif e.wanted != int(replay.id):  # done or cancelled before: it changes nothing
            add("replay again", ReplayDone())
        elif replay.progress is None:
            add("replay half", SliceDone(HALF), envs=put(s.envs, i, e._replace(half=1)))
        elif not e.half:
            out.append((False, "replay", Violation("S5 a replay continues from the progress of another")))
        else:
            add("replay rest", ReplayDone(HALF), envs=put(s.envs, i, e._replace(wanted=0, half=0)))
