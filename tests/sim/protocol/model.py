"""Every interleaving of the trigger protocol within given bounds. Rules and workers are the product's own code.

Every effect (one row by compare-and-set, one call of the launcher, one commit on the mirror) is one transition, and
a crash may fall between any two. There is no clock: the lease of a run that sends no heartbeat (queued, dead)
may expire at any time, that of a healthy worker only by the fault "zombie", after which it goes on as if nothing
had happened; back-off and quiet periods end at any time. Safety, in every state:
  S1 a mirror's cursor never moves back
  S2 a healthy (non-zombie) worker holds its slot and alone owns the table that it works on
  S3 queued and healthy runs <= slots (+ 1 for each token that the launcher forgot)
  S4 covered == dirty => the mirror holds everything up to the head at the last notice
Liveness, without further faults and commits, from every reachable state:
  L1 every path that stops, stops in a good state: all merged, nothing dirty, slots free, nothing under way
  L2 there is no cycle, so every path stops: no fairness is assumed, and nothing is launched for ever
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from icemirror.errors import Kind
from icemirror.result import ErrorResult
from icemirror.state.actions import Launch
from icemirror.state.eligibility import due_at, waits
from icemirror.state.events import (
    Dispatch,
    Holder,
    Looked,
    Noticed,
    Recorded,
    Recover,
    Resumed,
    RunState,
    Terms,
    Unown,
)
from icemirror.state.rows import SlotRow, SlotState
from icemirror.state.worker import (
    Doing,
    MergeFailed,
    MergeOutcome,
    NothingLeft,
    Overtaken,
    SliceDone,
    Worker,
    fenced,
)
from tests.sim.protocol.fleet import NOW, Fleet, put
from tests.sim.protocol.world import ACTIVE, GROUP, Env, Pc, Run, State, run_id

LATE, LONG_AGO, NEXT_DAY = 10.0, -10.0, 1_000.0
FAILURE = ErrorResult(kind=Kind.TRANSIENT, message="")
TERMS = Terms(GROUP)
HEADS = [str(head) for head in range(100)]
Transition = tuple[bool, str, Any]  # (is a fault, label, State or Violation)


class Violation(NamedTuple):
    """A transition that must not be possible."""

    why: str


class Model(Fleet):
    """A fleet and the world around it: commits, hints, triggers, a launcher, mirrors, faults."""

    def successors(self, s: State) -> list[Transition]:
        out: list[Transition] = []
        self._hints(s, out)
        self._dispatch(s, out)
        self._calls(s, out)
        if self.sweep:
            self._recover(s, out)
        for n, r in enumerate(s.runs):
            if r.worker != self.canon.end:
                self._run(s, n, r, out)
        return out

    def _fault(self, s: State, out: list[Transition], label: str, field: str, **changes: Any) -> None:
        left = getattr(s.bud, field)
        if left:
            out.append((True, label, s._replace(bud=s.bud._replace(**{field: left - 1}), **changes)))

    def _hints(self, s: State, out: list[Transition]) -> None:
        """Commits, hints of them, looks at the heads, time."""
        for i, (e, name) in enumerate(zip(s.envs, self.names, strict=True)):
            committed = e._replace(head=e.head + 1, hints=0 if self.watch else e.hints + 1)
            self._fault(s, out, f"commit{i}", "commit", envs=put(s.envs, i, committed))
            if e.hints and len(s.pcs) < self.triggers:
                self._hint(s, i, e, out)
            t = self.tables[s.tabs[i]]
            if self.sweep and self.repair and (self.every_look or t.dirty == t.covered):
                tabs, _, _ = self.apply(s, Looked, NOW, name, TERMS, HEADS[e.head])
                if tabs != s.tabs:
                    seen = put(s.envs, i, e._replace(noticed=e.head))
                    out.append((False, f"look{i}", s._replace(tabs=tabs, envs=seen)))
            if e.cursor:  # a person drops the mirror, or rolls it back: no notice stands for what it held
                lost = put(s.envs, i, e._replace(cursor=0, noticed=0))
                self._fault(s, out, f"rollback{i}", "rollback", envs=lost)
            self._recheck(s, i, e, out)
            if s.bud.resume:
                resumed = put(s.envs, i, e._replace(noticed=e.head))
                tabs, _, _ = self.apply(s, Resumed, NOW, name)
                self._fault(s, out, f"resume{i}", "resume", tabs=tabs, envs=resumed)
            if t.not_before or (waits(t) and due_at(t, NOW, self.policy) > NOW):
                later = replace(t, not_before=0.0, first_dirty_at=LONG_AGO, last_dirty_at=LONG_AGO)
                later = later if self.quiet else replace(t, not_before=0.0)
                out.append((False, f"elapse{i}", s._replace(tabs=put(s.tabs, i, self.tables.number(later)))))
            if self.sweep and t.owner:
                tabs, _, _ = self.apply(s, Unown, NOW, name, 1.0)
                if tabs != s.tabs:
                    out.append((False, f"unown{i}", s._replace(tabs=tabs)))

    def _recheck(self, s: State, i: int, e: Env, out: list[Transition]) -> None:
        """A look long after the last merge: surely where the mirror was rolled back, else as often as allowed."""
        if not self.sweep or not self.repair:
            return
        name, head = self.names[i], HEADS[e.head]
        tabs, _, _ = self.apply(s, Looked, NEXT_DAY, name, TERMS, head)
        if tabs == s.tabs or self.apply(s, Looked, NOW, name, TERMS, head)[0] != s.tabs:
            return
        noticed = replace(self.tables[tabs[i]], first_dirty_at=NOW, last_dirty_at=NOW)
        after = s._replace(
            tabs=put(tabs, i, self.tables.number(noticed)), envs=put(s.envs, i, e._replace(noticed=e.head))
        )
        if e.cursor < e.head:
            out.append((False, f"recheck{i}", after))
        else:
            self._fault(s, out, f"recheck{i}", "recheck", tabs=after.tabs, envs=after.envs)

    def _hint(self, s: State, i: int, e: Env, out: list[Transition]) -> None:
        tabs = self._noticed(s, i)
        taken, seen = e._replace(hints=e.hints - 1), e._replace(noticed=e.head)
        after = s.pcs if self.sweep else tuple(sorted((*s.pcs, ("dispatch",))))
        if self.flaw == "acknowledge before notice":
            pcs = tuple(sorted((*s.pcs, ("notice", i))))
            out.append((False, f"ack{i}", s._replace(envs=put(s.envs, i, taken), pcs=pcs)))
        else:
            envs = put(s.envs, i, taken._replace(noticed=e.head))
            out.append((False, f"notice{i}", s._replace(tabs=tabs, envs=envs, pcs=after)))
        envs = put(s.envs, i, seen)
        self._fault(s, out, f"notice{i}, no ack", "dup", tabs=tabs, envs=envs, pcs=after)
        self._fault(s, out, f"lose{i}", "lose", envs=put(s.envs, i, taken))

    def _noticed(self, s: State, i: int) -> tuple[int, ...]:
        head = None if self.blind_hints else HEADS[s.envs[i].head]
        return self.apply(s, Noticed, NOW, self.names[i], TERMS, head)[0]

    def _dispatch(self, s: State, out: list[Transition]) -> None:
        """With a sweep at any time; without one, once after each notice."""
        pcs = s.pcs
        if not self.sweep:
            if ("dispatch",) not in pcs:
                return
            at = pcs.index(("dispatch",))
            pcs = pcs[:at] + pcs[at + 1 :]
        _, slots, result = self.apply(s, Dispatch, NOW, GROUP)
        match result.actions:
            case (Launch(slot, gen),) if len(pcs) < self.triggers:
                pcs = tuple(sorted((*pcs, ("launch", slot.index, gen))))
                out.append((False, f"take{slot.index}", s._replace(slots=slots, pcs=pcs)))
            case () if not self.sweep:
                out.append((False, "dispatch: nothing to do", s._replace(pcs=pcs)))

    def _calls(self, s: State, out: list[Transition]) -> None:
        """What a trigger does between two rows: calls of the launcher, and their answers."""
        for n, p in enumerate(s.pcs):
            rest = s.pcs[:n] + s.pcs[n + 1 :]
            self._fault(s, out, "trigger crash", "wcrash", pcs=rest)
            match p:
                case ("notice", i):
                    envs = put(s.envs, i, s.envs[i]._replace(noticed=s.envs[i].head))
                    late = s._replace(tabs=self._noticed(s, i), envs=envs, pcs=rest)
                    out.append((False, "late notice", late))
                case ("launch", i, g):
                    self._launch(s, i, g, rest, out)
                case ("record", i, g, k):
                    _, slots, _ = self.apply(s, Recorded, NOW, self.ids[i], g, run_id(g, k))
                    out.append((False, "record", s._replace(slots=slots, pcs=rest)))

    def _launch(self, s: State, i: int, g: int, rest: tuple[Pc, ...], out: list[Transition]) -> None:
        same = [r for r in s.runs if (r.slot, r.tgen) == (i, g)]
        k = len(same)
        new = Run(i, g, k, self.workers.number(Worker(Holder(self.ids[i], g, run_id(g, k)))))

        def answered(k: int) -> tuple[Pc, ...]:
            return tuple(sorted((*rest, ("record", i, g, k))))

        if self.poison == "noanswer":
            out.append((False, "launch: no answer", s._replace(pcs=rest)))
            return
        if not same:
            out.append((False, "launch", s._replace(runs=(*s.runs, new), pcs=answered(0))))
            return
        out.append((False, "launch: same run", s._replace(pcs=answered(0))))
        self._fault(s, out, "launch: token forgotten", "forget", runs=(*s.runs, new), pcs=answered(k))

    def _recover(self, s: State, out: list[Transition]) -> None:
        for i, number in enumerate(s.slots):
            x = self.slots[number]
            if x.state is SlotState.FREE:
                continue
            if x.run_id is None:
                if ("launch", i, x.gen) in s.pcs[1:]:  # two at once are enough
                    continue
                found, now = RunState.UNKNOWN, LATE
            else:
                found, now = self._poll(s, i, x)
            tabs, slots, result = self.apply(s, Recover, now, self.ids[i], x.gen, x.run_id, found, 1.0)
            if self.flaw == "terminal run advances covered" and slots != s.slots:
                tabs = tuple(self._covered(n, i, x.gen) for n in s.tabs)
            launches = [a for a in result.actions if isinstance(a, Launch)]
            if launches and len(s.pcs) >= self.triggers:
                continue
            pcs = tuple(sorted((*s.pcs, *(("launch", i, a.gen) for a in launches))))
            label = f"relaunch{i}" if launches else f"free slot{i}"
            out.append((False, label, s._replace(tabs=tabs, slots=slots, pcs=pcs)))

    def _poll(self, s: State, i: int, x: SlotRow) -> tuple[RunState, float]:
        """What the launcher says of the slot's run, and a time at which a lease may have run out."""
        runs = [r for r in s.runs if r.slot == i]
        run = next((r for r in runs if run_id(r.tgen, r.k) == x.run_id), None)
        if self.flaw == "slot polled by token, not run id" and x.state in ACTIVE:
            run = next((r for r in runs if r.tgen == x.gen and r.worker == self.canon.end), run)
        if run is None or run.worker == self.canon.end:
            return RunState.GONE, NOW
        if x.state is SlotState.LAUNCHING:
            return RunState.QUEUED, LATE
        return RunState.RUNNING, LATE if run.zombie else NOW

    def _covered(self, number: int, i: int, gen: int) -> int:
        t = self.tables[number]
        if t.owner and (t.owner.slot.index, t.owner.gen) == (i, gen):
            return self.tables.number(replace(t, covered=t.dirty, owner=None))
        return number

    # --- runs --------------------------------------------------------------------------------------------------

    def _run(self, s: State, n: int, r: Run, out: list[Transition]) -> None:
        w = self.workers[r.worker]
        over = put(s.runs, n, Run(r.slot, r.tgen, r.k, self.canon.end))
        if w.doing is Doing.START:
            if self.poison == "nostart":
                out.append((False, "never started", s._replace(runs=over)))
                return
            self._fault(s, out, "never started", "nostart", runs=over)
            self._tell(s, n, r, out)
            return
        self._fault(s, out, f"dies j{r.slot}", "crash", runs=over)
        if not r.zombie and w.doing is not Doing.RESCAN:
            self._fault(s, out, f"zombie j{r.slot}", "zombie", runs=put(s.runs, n, r._replace(zombie=1)))
        if w.doing is Doing.MERGE:
            if not self.mine(s, r, w):
                stopped = self._with(s, n, r, self.workers.number(fenced(w)))
                out.append((False, f"heartbeat fenced j{r.slot}", stopped))
            self._merge(s, n, r, w, out)
        elif w.doing is Doing.BEAT and self.poison == "diestart":
            out.append((False, f"dies j{r.slot}", s._replace(runs=over)))
        elif w.doing is Doing.PICK:
            claims = [self._tell(s, n, r, out, frozenset({name})) for name in self.names]
            if not any(claims):
                self._tell(s, n, r, out)
        else:
            self._tell(s, n, r, out)

    def _tell(
        self, s: State, n: int, r: Run, out: list[Transition], names: frozenset[str] | None = None
    ) -> bool:
        """One step of a worker; with `names`, only if it gets one of those tables (in any order)."""
        tabs, slots, worker, got_table = self.tell(s, r.worker, names)
        if names is not None and not got_table:
            return False
        after = r._replace(worker=worker, at="C" if got_table else "", loc=0, h=0)
        label = f"{self.workers[r.worker].doing} j{r.slot} {','.join(names or ())}"
        out.append((False, label, s._replace(tabs=tabs, slots=slots, runs=put(s.runs, n, after))))
        return True

    def _with(self, s: State, n: int, r: Run, worker: int, **changes: Any) -> State:
        after = Run(r.slot, r.tgen, r.k, worker, "", r.zombie)
        return s._replace(runs=put(s.runs, n, after), **changes)

    def _merge(self, s: State, n: int, r: Run, w: Worker, out: list[Transition]) -> None:
        """What `advance` does: locate on the mirror, then load the changelog's head and plan, then commit."""
        i = int(w.turn.table[1:]) if w.turn else -1
        e = s.envs[i]
        early = self.flaw == "head loaded before locating"

        def add(label: str, state: State) -> None:
            out.append((False, f"{label} j{r.slot}", state))

        def after(outcome: MergeOutcome, **changes: Any) -> State:
            return self._with(s, n, r, self.merged(r.worker, outcome), **changes)

        if r.at in "HM":
            failed = after(MergeFailed(FAILURE))
            self._fault(s, out, f"merge fails j{r.slot}", "fail", runs=failed.runs)
        if r.at == "C":
            loc = e.head if early else e.cursor
            add("locate", s._replace(runs=put(s.runs, n, r._replace(at="H", loc=loc))))
        elif r.at == "H":
            loc, h = (e.cursor, r.loc) if early else (r.loc, e.head)
            if loc == h:
                add("empty plan", after(NothingLeft(self.job_name + HEADS[h])))
            else:
                add("plan", s._replace(runs=put(s.runs, n, r._replace(at="M", loc=loc, h=h))))
        elif self.poison == "kill" and i == 0:
            add("dies", s._replace(runs=put(s.runs, n, Run(r.slot, r.tgen, r.k, self.canon.end))))
        elif self.poison == "raise" and i == 0:
            add("merge fails", after(MergeFailed(FAILURE)))
        elif e.cursor != r.loc and self.flaw != "no mirror fence":
            add("mirror fenced: plan again", after(Overtaken(FAILURE)))
        elif r.h < e.cursor:
            out.append((False, "mirror commit", Violation("S1 cursor moves back")))
        else:
            envs = put(s.envs, i, e._replace(cursor=r.h))
            add("mirror commit", after(SliceDone(), envs=envs))
