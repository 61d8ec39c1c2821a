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

import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, NamedTuple

from icemirror.errors import Kind
from icemirror.result import ErrorResult
from icemirror.state.actions import Launch, Merge
from icemirror.state.eligibility import due_at, waits
from icemirror.state.events import Dispatch, Event, Holder, Looked, Noticed, Recorded, Recover, RunState
from icemirror.state.events import Terms, Unown
from icemirror.state.policy import Policy
from icemirror.state.rows import Rows, SlotId, SlotRow, SlotState, TableRow
from icemirror.state.step import Step, step
from icemirror.state.worker import Doing, Limits, MergeFailed, MergeOutcome, Moment, NothingLeft, Overtaken
from icemirror.state.worker import SliceDone, Worker, fenced, merged, tell, told
from tests.sim.protocol.world import ACTIVE, GROUP, Budget, Canon, Env, Pc, Pool, Run, State, run_id

NOW, LATE, LONG_AGO = 0.0, 10.0, -10.0
WORK = (Doing.MERGE, Doing.REPORT, Doing.COMPLETE, Doing.FAIL)
FAILURE = ErrorResult(kind=Kind.TRANSIENT, message="")
TERMS = Terms(GROUP)
HEADS = [str(head) for head in range(100)]
Rule = Callable[[Rows, Event, Policy], Step]
Transition = tuple[bool, str, Any]  # (is a fault, label, State or Violation)


class Violation(NamedTuple):
    """A transition that must not be possible."""

    why: str


def _put(items: tuple[Any, ...], at: int, item: Any) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])


class Model:
    """The bounds, and what may be wrong: `rule` replaces `step`, `flaw` names a mistake outside of it."""

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
        every_look: bool = False,
        blind_hints: bool = False,
        rule: Rule = step,
        flaw: str = "",
        **budget: int,
    ) -> None:
        self.names = [f"t{i}" for i in range(tables)]
        self.ids = [SlotId(GROUP, i) for i in range(slots)]
        self.triggers, self.sweep, self.repair, self.poison = triggers, sweep, repair, poison
        self.watch, self.every_look, self.blind_hints = watch, every_look or watch, blind_hints
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
        )
        self.limits = Limits(
            linger_seconds=0.0, turn_slices=1 if short_turns else 1_000_000, max_conflicts=1_000_000
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
        )
        self._applied: dict[Hashable, tuple[tuple[int, ...], tuple[int, ...], Step]] = {}
        self._told: dict[Hashable, tuple[tuple[int, ...], tuple[int, ...], int, bool]] = {}

    def start(self) -> State:
        merged = [TableRow(name, group=GROUP, noticed_head="0", merged_head="0") for name in self.names]
        tabs = tuple(self.tables.number(row) for row in merged)
        slots = tuple(self.slots.number(SlotRow(slot)) for slot in self.ids)
        return State(tabs, slots, (), (), (Env(),) * len(tabs), self.budget)

    # --- the product's code, remembered ----------------------------------------------------------------------

    def apply(
        self, s: State, event: type[Event], *details: Any
    ) -> tuple[tuple[int, ...], tuple[int, ...], Step]:
        """Tables, slots and the step after an event."""
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
                return _put(s.tabs, at, self.tables.number(row)), s.slots, result
            case SlotRow() as row:
                return s.tabs, _put(s.slots, row.id.index, self.slots.number(row)), result
            case _:
                return s.tabs, s.slots, result

    def tell(
        self, s: State, worker: int, names: frozenset[str] | None = None
    ) -> tuple[tuple[int, ...], tuple[int, ...], int, bool]:
        """Tables, slots and the worker after it told the state what it does, and whether it got a table."""
        key = (s.tabs, s.slots, worker, names)
        found = self._told.get(key)
        if found is None:
            w = self.workers[worker]
            event = tell(w, Moment(NOW, 1.0, names), self.limits)
            if self.flaw == "dirty read after the merge" and w.doing is Doing.COMPLETE and w.turn:
                event = replace(event, dirty=self.tables[s.tabs[int(w.turn.table[1:])]].dirty)
            tabs, slots, result = self._apply(s, event)
            (answer,) = result.actions
            after = told(w, event, answer, self.limits)
            if self.flaw == "no scan after freeing the slot" and after.doing is Doing.RESCAN:
                after = replace(after, doing=Doing.END)
            found = self._told[key] = (tabs, slots, self.workers.number(after), isinstance(answer, Merge))
        return found

    # --- properties --------------------------------------------------------------------------------------------

    def good(self, s: State) -> bool:
        """Nothing is left to do but what a person has to."""
        slots = [self.slots[n] for n in s.slots]
        if s.pcs or any(x.state is not SlotState.FREE for x in slots):
            return False
        if any(r.worker != self.canon.end for r in s.runs):
            return False
        if all(x.quarantined for x in slots):
            return True
        return all(self._done(self.tables[n], e) for n, e in zip(s.tabs, s.envs, strict=True))

    def _done(self, t: TableRow, e: Env) -> bool:
        return not e.hints and (t.quarantined or (e.cursor == e.head and t.dirty == t.covered))

    def unsafe(self, s: State) -> str:
        """What does not hold in this state."""
        live, worked_on = 0, set()
        for r in s.runs:
            w = self.workers[r.worker]
            if w.doing is Doing.START:
                live += 1
            elif w.doing not in (Doing.END, Doing.RESCAN) and not r.zombie:
                live += 1
                if not self._mine(s, r, w):
                    return "S2 healthy worker lost its slot"
                if w.doing in WORK and w.turn:
                    owner = self.tables[s.tabs[int(w.turn.table[1:])]].owner
                    if owner != w.me.owner or w.turn.table in worked_on:
                        return "S2 healthy worker works on a table that it does not own"
                    worked_on.add(w.turn.table)
        if live > len(s.slots) + self.budget.forget - s.bud.forget:
            return "S3 more runs than slots"
        for n, e in zip(s.tabs, s.envs, strict=True):
            if self.tables[n].covered >= self.tables[n].dirty and e.cursor < e.noticed:
                return "S4 covered claims an unmerged commit"
        return ""

    def _mine(self, s: State, r: Run, w: Worker) -> bool:
        x = self.slots[s.slots[r.slot]]
        return x.state in ACTIVE and x.gen == w.me.gen and x.run_id == w.me.run_id

    # --- transitions -------------------------------------------------------------------------------------------

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
            self._fault(s, out, f"commit{i}", "commit", envs=_put(s.envs, i, committed))
            if e.hints and len(s.pcs) < self.triggers:
                self._hint(s, i, e, out)
            t = self.tables[s.tabs[i]]
            if self.sweep and self.repair and (self.every_look or t.dirty == t.covered):
                tabs, _, _ = self.apply(s, Looked, NOW, name, TERMS, HEADS[e.head])
                if tabs != s.tabs:
                    seen = _put(s.envs, i, e._replace(noticed=e.head))
                    out.append((False, f"look{i}", s._replace(tabs=tabs, envs=seen)))
            if t.not_before or (waits(t) and due_at(t, self.policy) > NOW):
                later = replace(t, not_before=0.0, first_dirty_at=LONG_AGO, last_dirty_at=LONG_AGO)
                later = later if self.quiet else replace(t, not_before=0.0)
                out.append((False, f"elapse{i}", s._replace(tabs=_put(s.tabs, i, self.tables.number(later)))))
            if self.sweep and t.owner:
                tabs, _, _ = self.apply(s, Unown, NOW, name, 1.0)
                if tabs != s.tabs:
                    out.append((False, f"unown{i}", s._replace(tabs=tabs)))

    def _hint(self, s: State, i: int, e: Env, out: list[Transition]) -> None:
        tabs = self._noticed(s, i)
        taken, seen = e._replace(hints=e.hints - 1), e._replace(noticed=e.head)
        after = s.pcs if self.sweep else tuple(sorted((*s.pcs, ("dispatch",))))
        if self.flaw == "acknowledge before notice":
            pcs = tuple(sorted((*s.pcs, ("notice", i))))
            out.append((False, f"ack{i}", s._replace(envs=_put(s.envs, i, taken), pcs=pcs)))
        else:
            envs = _put(s.envs, i, taken._replace(noticed=e.head))
            out.append((False, f"notice{i}", s._replace(tabs=tabs, envs=envs, pcs=after)))
        envs = _put(s.envs, i, seen)
        self._fault(s, out, f"notice{i}, no ack", "dup", tabs=tabs, envs=envs, pcs=after)
        self._fault(s, out, f"lose{i}", "lose", envs=_put(s.envs, i, taken))

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
                    envs = _put(s.envs, i, s.envs[i]._replace(noticed=s.envs[i].head))
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

        if not same:
            out.append((False, "launch", s._replace(runs=(*s.runs, new), pcs=answered(0))))
            return
        out.append((False, "launch: same run", s._replace(pcs=answered(0))))
        self._fault(
            s, out, "launch: token forgotten", "forget", runs=(*s.runs, new), pcs=answered(k)
        )

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
        over = _put(s.runs, n, Run(r.slot, r.tgen, r.k, self.canon.end))
        if w.doing is Doing.START:
            if self.poison == "nostart":
                out.append((False, "never started", s._replace(runs=over)))
                return
            self._fault(s, out, "never started", "nostart", runs=over)
            self._tell(s, n, r, out)
            return
        self._fault(s, out, f"dies j{r.slot}", "crash", runs=over)
        if not r.zombie and w.doing is not Doing.RESCAN:
            self._fault(s, out, f"zombie j{r.slot}", "zombie", runs=_put(s.runs, n, r._replace(zombie=1)))
        if w.doing is Doing.MERGE:
            if not self._mine(s, r, w):
                stopped = self._with(s, n, r, fenced(w))
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
        out.append((False, label, s._replace(tabs=tabs, slots=slots, runs=_put(s.runs, n, after))))
        return True

    def _with(self, s: State, n: int, r: Run, w: Worker, **changes: Any) -> State:
        after = r._replace(worker=self.workers.number(w), at="", loc=0, h=0)
        return s._replace(runs=_put(s.runs, n, after), **changes)

    def _merge(self, s: State, n: int, r: Run, w: Worker, out: list[Transition]) -> None:
        """What `advance` does: locate on the mirror, then load the changelog's head and plan, then commit."""
        i = int(w.turn.table[1:]) if w.turn else -1
        e = s.envs[i]
        early = self.flaw == "head loaded before locating"

        def add(label: str, state: State) -> None:
            out.append((False, f"{label} j{r.slot}", state))

        def after(outcome: MergeOutcome, **changes: Any) -> State:
            return self._with(s, n, r, merged(w, outcome, self.limits), **changes)

        if r.at in "HM":
            failed = after(MergeFailed(FAILURE))
            self._fault(s, out, f"merge fails j{r.slot}", "fail", runs=failed.runs)
        if r.at == "C":
            loc = e.head if early else e.cursor
            add("locate", s._replace(runs=_put(s.runs, n, r._replace(at="H", loc=loc))))
        elif r.at == "H":
            loc, h = (e.cursor, r.loc) if early else (r.loc, e.head)
            if loc == h:
                add("empty plan", after(NothingLeft(HEADS[h])))
            else:
                add("plan", s._replace(runs=_put(s.runs, n, r._replace(at="M", loc=loc, h=h))))
        elif self.poison == "kill" and i == 0:
            add("dies", s._replace(runs=_put(s.runs, n, Run(r.slot, r.tgen, r.k, self.canon.end))))
        elif self.poison == "raise" and i == 0:
            add("merge fails", after(MergeFailed(FAILURE)))
        elif e.cursor != r.loc and self.flaw != "no mirror fence":
            add("mirror fenced: plan again", after(Overtaken(FAILURE)))
        elif r.h < e.cursor:
            out.append((False, "mirror commit", Violation("S1 cursor moves back")))
        else:
            envs = _put(s.envs, i, e._replace(cursor=r.h))
            add("mirror commit", after(SliceDone(), envs=envs))
