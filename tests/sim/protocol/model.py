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
from tests.sim.protocol.world import ACTIVE, GROUP, Env, Pc, Run, State, run_id

LATE, LONG_AGO, NEXT_DAY = 10.0, -10.0, 1_000.0
TERMS = SchedulingOptions(GROUP)


class Model(Runs):
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
        return [self._check_quarantine(s, transition) for transition in out] if self.limit else out

    def _check_quarantine(self, s: State, transition: Transition) -> Transition:
        """Check that only the user lifts a quarantine."""
        fault, label, new = transition
        if label.startswith(("resume", "replay")) or isinstance(new, Violation) or new.tabs == s.tabs:
            return transition
        both = zip(s.tabs, new.tabs, strict=True)
        if any(self.tables[old].quarantined and not self.tables[now].quarantined for old, now in both):
            return fault, label, Violation("S6 a quarantine ends by itself")
        return transition

    def _hints(self, s: State, out: list[Transition]) -> None:
        """Add commits, hints, polls of heads, and the passing of time."""
        for i, (e, name) in enumerate(zip(s.envs, self.names, strict=True)):
            committed = e._replace(head=e.head + 1, hints=0 if self.watch else e.hints + 1)
            self._fault(s, out, f"commit{i}", "commit", envs=put(s.envs, i, committed))
            if e.hints and len(s.pcs) < self.triggers:
                self._hint(s, i, e, out)
            t = self.tables[s.tabs[i]]
            if self.sweep and self.repair and (self.every_poll or t.dirty == t.covered):
                tabs, _, _ = self.apply(s, HeadRead, NOW, name, TERMS, HEADS[e.head])
                if tabs != s.tabs:
                    seen = put(s.envs, i, e._replace(noticed=e.head))
                    out.append((False, f"poll{i}", s._replace(tabs=tabs, envs=seen)))
            if e.cursor:  # the mirror is dropped or rolled back: no notice covers its old rows
                lost = put(s.envs, i, e._replace(cursor=0, noticed=0))
                self._fault(s, out, f"rollback{i}", "rollback", envs=lost)
            self._recheck(s, i, e, out)
            if s.bud.resume:
                resumed = put(s.envs, i, e._replace(noticed=e.head))
                tabs, _, _ = self.apply(s, ResumeRequested, NOW, name)
                self._fault(s, out, f"resume{i}", "resume", tabs=tabs, envs=resumed)
                if self.tables[tabs[i]].quarantined or self.tables[tabs[i]].paused:
                    out.append((True, f"resume{i}", Violation("S6 a table that was resumed is not taken")))
            self._user_actions(s, i, e, out)
            if t.not_before or (is_waiting(t) and due_at(t, NOW, self.policy) > NOW):
                later = replace(t, not_before=0.0, first_dirty_at=LONG_AGO, last_dirty_at=LONG_AGO)
                later = later if self.quiet else replace(t, not_before=0.0)
                out.append((False, f"elapse{i}", s._replace(tabs=put(s.tabs, i, self.tables.number(later)))))
            if self.sweep and t.owner:
                tabs, _, _ = self.apply(s, RecoverTable, NOW, name, 1.0)
                if tabs != s.tabs:
                    out.append((False, f"unown{i}", s._replace(tabs=tabs)))

    def _user_actions(self, s: State, i: int, e: Env, out: list[Transition]) -> None:
        """The user pauses the table, requests a replay, or cancels it."""
        name, waiting = self.names[i], self.tables[s.tabs[i]].replay
        if s.bud.pause:
            self._fault(s, out, f"pause{i}", "pause", tabs=self.apply(s, PauseRequested, NOW, name)[0])
        if s.bud.replay:
            number = self.budget.replay - s.bud.replay + 1
            request = Replay(str(number), NOW)
            tabs, _, result = self.apply(s, ReplayRequested, NOW, name, TERMS, request)
            if waiting is not None and tabs != s.tabs:
                out.append((True, f"replay{i}", Violation("S5 a replay is lost")))
            elif not result.actions:  # else it was refused
                requested = e._replace(wanted=number, half=0, noticed=e.head)
                self._fault(s, out, f"replay{i}", "replay", tabs=tabs, envs=put(s.envs, i, requested))
        if s.bud.cancel and waiting is not None:
            tabs, _, _ = self.apply(s, ReplayCancelled, NOW, name, waiting.id)
            self._fault(s, out, f"cancel{i}", "cancel", tabs=tabs)

    def _recheck(self, s: State, i: int, e: Env, out: list[Transition]) -> None:
        """Read the head long after the last merge: always after a rollback of the mirror, else as often as allowed."""
        if not self.sweep or not self.repair:
            return
        name, head = self.names[i], HEADS[e.head]
        tabs, _, _ = self.apply(s, HeadRead, NEXT_DAY, name, TERMS, head)
        if tabs == s.tabs or self.apply(s, HeadRead, NOW, name, TERMS, head)[0] != s.tabs:
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
        received, seen = e._replace(hints=e.hints - 1), e._replace(noticed=e.head)
        after = s.pcs if self.sweep else tuple(sorted((*s.pcs, ("dispatch",))))
        if self.flaw == "acknowledge before notice":
            pcs = tuple(sorted((*s.pcs, ("notice", i))))
            out.append((False, f"ack{i}", s._replace(envs=put(s.envs, i, received), pcs=pcs)))
        else:
            envs = put(s.envs, i, received._replace(noticed=e.head))
            out.append((False, f"notice{i}", s._replace(tabs=tabs, envs=envs, pcs=after)))
        envs = put(s.envs, i, seen)
        self._fault(s, out, f"notice{i}, no ack", "dup", tabs=tabs, envs=envs, pcs=after)
        self._fault(s, out, f"lose{i}", "lose", envs=put(s.envs, i, received))

    def _noticed(self, s: State, i: int) -> tuple[int, ...]:
        head = None if self.blind_hints else HEADS[s.envs[i].head]
        return self.apply(s, Noticed, NOW, self.names[i], TERMS, head)[0]

    def _dispatch(self, s: State, out: list[Transition]) -> None:
        """Dispatch at any time with a sweep; without one, once after each notice."""
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
        """Add the effects of a trigger between two rows: calls of the launcher, and their results."""
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
                    _, slots, _ = self.apply(s, RunRecorded, NOW, self.ids[i], g, run_id(g, k))
                    out.append((False, "record", s._replace(slots=slots, pcs=rest)))

    def _launch(self, s: State, i: int, g: int, rest: tuple[Pc, ...], out: list[Transition]) -> None:
        same = [r for r in s.runs if (r.slot, r.tgen) == (i, g)]
        k = len(same)
        new = Run(i, g, k, self.workers.number(Worker(WorkerId(self.ids[i], g, run_id(g, k)))))

        def answered(k: int) -> tuple[Pc, ...]:
            return tuple(sorted((*rest, ("record", i, g, k))))

        if self.poison == "noanswer":
            out.append((False, "launch: no answer", s._replace(pcs=rest)))
            return
        if not same:
            out.append((False, "launch", s._replace(runs=(*s.runs, new), pcs=answered(0))))
            old = (*s.runs, new._replace(old=1))
            self._fault(s, out, "launch: older settings", "old", runs=old, pcs=answered(0))
            return
        out.append((False, "launch: same run", s._replace(pcs=answered(0))))
        self._fault(s, out, "launch: token forgotten", "forget", runs=(*s.runs, new), pcs=answered(k))

    def _recover(self, s: State, out: list[Transition]) -> None:
        for i, number in enumerate(s.slots):
            x = self.slots[number]
            if x.state is SlotState.FREE:
                continue
            if x.run_id is None:
                if ("launch", i, x.gen) in s.pcs[1:]:  # two pending launches are enough
                    continue
                found, now = RunState.UNKNOWN, LATE
            else:
                found, now = self._poll(s, i, x)
            tabs, slots, result = self.apply(s, RecoverSlot, now, self.ids[i], x.gen, x.run_id, found, 1.0)
            if self.flaw == "terminal run advances covered" and slots != s.slots:
                tabs = tuple(self._covered(n, i, x.gen) for n in s.tabs)
            launches = [a for a in result.actions if isinstance(a, Launch)]
            if launches and len(s.pcs) >= self.triggers:
                continue
            pcs = tuple(sorted((*s.pcs, *(("launch", i, a.gen) for a in launches))))
            label = f"relaunch{i}" if launches else f"free slot{i}"
            out.append((False, label, s._replace(tabs=tabs, slots=slots, pcs=pcs)))

    def _poll(self, s: State, i: int, x: SlotRow) -> tuple[RunState, float]:
        """Return the launcher's state of the slot's run, and a time at which a lease may have expired."""
        runs = [r for r in s.runs if r.slot == i]
        run = next((r for r in runs if run_id(r.tgen, r.k) == x.run_id), None)
        if self.flaw == "slot polled by token, not run id" and x.state in ACTIVE:
            run = next((r for r in runs if r.tgen == x.gen and r.worker == self.canon.end), run)
        if run is None or run.worker == self.canon.end:
            return RunState.ENDED, NOW
        if x.state is SlotState.LAUNCHING:
            return RunState.QUEUED, LATE
        return RunState.RUNNING, LATE if run.zombie else NOW

    def _covered(self, number: int, i: int, gen: int) -> int:
        t = self.tables[number]
        if t.owner and (t.owner.slot.index, t.owner.gen) == (i, gen):
            return self.tables.number(replace(t, covered=t.dirty, owner=None))
        return number
