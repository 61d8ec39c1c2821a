"""The states that the model check explores: the product's rows and workers, and a small world around them.

Rows and workers are the product's dataclasses, stored once each and referenced by number, so that states are cheap to
compare. `Canon` maps states that differ only by names to the same form: only the order of generations and of counters
matters, and ended runs are dropped.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from icemirror.protocol.events import WorkerId
from icemirror.protocol.rows import Owner, SlotId, SlotRow, SlotState, TableRow
from icemirror.protocol.worker import Phase, Worker

GROUP = "g"
ACTIVE = (SlotState.RUNNING, SlotState.LINGERING)
HAS_DIRTY = (Phase.MERGE, Phase.COMPLETE)
END = Worker(WorkerId(SlotId(GROUP, 0), 0, ""), Phase.END)
Key = tuple[Any, ...]
Form = tuple[
    Any, ...
]  # tables, slots, (run without its plan, its position before, whether it continues), calls
T = TypeVar("T")


class Env(NamedTuple):
    """A table's changelog and mirror, and the hints in transit; `noticed` is the head at the last notice.

    `wanted`: the requested replay that is not done. `half`: the first of its two slices is done.
    """

    head: int = 0
    hints: int = 0
    noticed: int = 0
    cursor: int = 0
    wanted: int = 0
    half: int = 0


class Run(NamedTuple):
    """A run that the launcher has accepted. `k` distinguishes runs of one token that the launcher forgot.

    `old`: its configuration lacks table 0. `at` is the position of a merge: C about to locate on the mirror, H about
    to load the changelog's head, M to commit, R to commit a slice of a replay.
    """

    slot: int
    tgen: int
    k: int
    worker: int
    at: str = ""
    zombie: int = 0
    old: int = 0
    loc: int = 0
    h: int = 0


class Budget(NamedTuple):
    """How many of each fault may still happen."""

    commit: int = 0
    crash: int = 0
    zombie: int = 0
    lose: int = 0
    dup: int = 0
    fail: int = 0
    nostart: int = 0
    forget: int = 0
    wcrash: int = 0
    rollback: int = 0
    recheck: int = 0
    resume: int = 0
    pause: int = 0
    replay: int = 0
    cancel: int = 0
    invalid: int = 0
    old: int = 0


Pc = tuple[Any, ...]  # ("launch", slot, gen), ("record", slot, gen, k), ("notice", table) or ("dispatch",)


class State(NamedTuple):
    """The whole state. Tables, slots and workers are numbers in `Pool`s."""

    tabs: tuple[int, ...]
    slots: tuple[int, ...]
    runs: tuple[Run, ...]
    pcs: tuple[Pc, ...]
    envs: tuple[Env, ...]
    bud: Budget


class Pool(Generic[T]):
    """Stores every distinct value once, by number."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def number(self, value: T) -> int:
        found = self._numbers.setdefault(value, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found

    def __getitem__(self, number: int) -> T:
        return self.values[number]


def run_id(tgen: int, k: int) -> str:
    return f"{tgen}.{k}"


class Canon:
    """Returns the same form for states that differ only by names."""

    def __init__(
        self,
        tables: Pool[TableRow],
        slots: Pool[SlotRow],
        workers: Pool[Worker],
        *,
        limited: bool,
        strict: bool,
        quiet: bool,
        knowing: bool,
    ) -> None:
        self._tables, self._slots, self._workers = tables, slots, workers
        self._limited, self._strict, self._quiet, self._knowing = limited, strict, quiet, knowing
        self._forms: dict[Key, Form] = {}
        self._renamed: dict[Key, int] = {}
        self.end = workers.number(END)

    def __call__(self, s: State) -> State:
        cores = tuple([r[:7] for r in s.runs])
        key = (s.tabs, s.slots, cores, s.pcs, s.bud.forget > 0)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = self._form(s)
        tabs, slots, runs, pcs = form
        plans = s.runs
        kept = tuple([Run(*core, *plans[n][7:]) if continues else Run(*core) for core, n, continues in runs])
        return State(tabs, slots, kept, pcs, s.envs, s.bud)

    def _form(self, s: State) -> Form:
        tabs, slots = [self._tables[n] for n in s.tabs], [self._slots[n] for n in s.slots]
        all_runs = [self._ended_if_fenced(r, tabs, slots) for r in s.runs]
        pcs = [p for p in s.pcs if not self._irrelevant(p, slots, all_runs, forget=s.bud.forget > 0)]
        runs = [(r, n) for n, r in enumerate(all_runs) if self._is_relevant(r, slots, pcs)]
        gens = [self._gen_order(i, slots, tabs, [r for r, _ in runs], pcs) for i in range(len(slots))]
        dirties = [self._dirty_order(f"t{i}", t, [r for r, _ in runs]) for i, t in enumerate(tabs)]
        return (
            tuple(self._table(n, m, gens) for n, m in zip(s.tabs, dirties, strict=True)),
            tuple(self._slot(n, m) for n, m in zip(s.slots, gens, strict=True)),
            tuple(sorted((self._run(r, gens, dirties)[:7], n, r.worker != self.end) for r, n in runs)),
            tuple(sorted((p[0], p[1], gens[p[1]][p[2]], *p[3:]) if len(p) > 2 else p for p in pcs)),
        )

    def _ended_if_fenced(self, r: Run, tabs: list[TableRow], slots: list[SlotRow]) -> Run:
        """Return the run; a fenced run that can only end counts as ended."""
        w, x = self._workers[r.worker], slots[r.slot]
        if w.phase is Phase.END:
            return Run(r.slot, r.tgen, r.k, self.end)
        holds_slot = x.state in ACTIVE and x.gen == w.id.gen and x.run_id == w.id.run_id
        ends = w.phase is Phase.RESCAN and (x.state is not SlotState.FREE or x.gen != w.id.gen)
        if r.zombie and not holds_slot:
            ends |= w.phase in (Phase.HEARTBEAT, Phase.LINGER, Phase.DECLINE, Phase.LEAVE)
            if w.phase in (Phase.REPORT, Phase.COMPLETE, Phase.FAIL) and w.turn and self._strict:
                ends |= tabs[int(w.turn.table[1:])].owner != w.id.owner
        return Run(r.slot, r.tgen, r.k, self.end) if ends else r

    def _irrelevant(self, p: Pc, slots: list[SlotRow], runs: list[Run], *, forget: bool) -> bool:
        """Return whether the result of a call is irrelevant."""
        if p[0] not in ("launch", "record") or not self._strict:
            return False
        x = slots[p[1]]
        if (x.state, x.gen, x.run_id) == (SlotState.LAUNCHING, p[2], None):
            return False
        return p[0] == "record" or (not forget and any((r.slot, r.tgen) == p[1:3] for r in runs))

    def _is_relevant(self, r: Run, slots: list[SlotRow], pcs: list[Pc]) -> bool:
        x = slots[r.slot]
        polled = x.state is not SlotState.FREE and (x.gen == r.tgen or x.run_id == run_id(r.tgen, r.k))
        launching = any(p[0] != "notice" and p[1:3] == (r.slot, r.tgen) for p in pcs)
        return r.worker != self.end or polled or launching

    def _gen_order(
        self, i: int, slots: list[SlotRow], tabs: list[TableRow], runs: list[Run], pcs: list[Pc]
    ) -> dict[int, int]:
        used = {0, slots[i].gen}
        for r in runs:
            if r.slot == i:
                used.add(r.tgen)
                if r.worker != self.end:
                    used.add(self._workers[r.worker].id.gen)
        used |= {p[2] for p in pcs if p[0] in ("launch", "record") and p[1] == i}
        used |= {t.owner.gen for t in tabs if t.owner and t.owner.slot.index == i}
        if run_id := slots[i].run_id:
            used.add(_token_gen(run_id))
        return {gen: order for order, gen in enumerate(sorted(used))}

    def _dirty_order(self, name: str, t: TableRow, runs: list[Run]) -> dict[int, int]:
        used = {t.dirty, t.covered}
        for r in runs:
            w = self._workers[r.worker]
            if w.turn and w.turn.table == name and w.phase in HAS_DIRTY:
                used.add(w.turn.dirty)
        return {dirty: order for order, dirty in enumerate(sorted(used))}

    def _table(self, number: int, dirty: dict[int, int], gens: list[dict[int, int]]) -> int:
        t = self._tables[number]
        owner = t.owner and Owner(t.owner.slot, gens[t.owner.slot.index][t.owner.gen])
        key = ("table", number, dirty[t.dirty], dirty[t.covered], owner)
        if (found := self._renamed.get(key)) is not None:
            return found
        clean = t.dirty == t.covered
        new = replace(
            t,
            dirty=dirty[t.dirty],
            covered=dirty[t.covered],
            owner=owner,
            not_before=0.0 if t.quarantined else min(t.not_before, 1.0),
            failures=t.failures if self._limited else 0,
            first_dirty_at=0.0 if clean else t.first_dirty_at,
            last_dirty_at=0.0 if clean else t.last_dirty_at,
            yielded_at=t.yielded_at if self._quiet else None,
            completed_at=None if t.completed_at is None else 0.0,
            error=None,
            last_replay=t.last_replay and replace(t.last_replay, error=None, progress=None),
        )
        return self._renamed.setdefault(key, self._tables.number(new))

    def _slot(self, number: int, gens: dict[int, int]) -> int:
        x = self._slots[number]
        name = x.run_id and _rename(x.run_id, gens)
        key = ("slot", number, gens[x.gen], name)
        if (found := self._renamed.get(key)) is not None:
            return found
        new = replace(
            x,
            gen=gens[x.gen],
            run_id=name,
            lease_until=0.0 if x.state is SlotState.FREE else 1.0,
            failures=x.failures if self._limited else 0,
            # Waiting before a slot is taken equals a late dispatch, which is explored anyway.
            not_before=math.inf if x.quarantined else 0.0,
            error=None,
            # If every worker knows all tables, it is irrelevant which of them it was launched for.
            wanted=() if self._knowing else x.wanted,
        )
        return self._renamed.setdefault(key, self._slots.number(new))

    def _run(self, r: Run, gens: list[dict[int, int]], dirties: list[dict[int, int]]) -> Run:
        order = gens[r.slot]
        if r.worker == self.end:
            return Run(r.slot, order[r.tgen], r.k, self.end)
        w = self._workers[r.worker]
        turn, dirty = w.turn, 0
        if turn and w.phase in HAS_DIRTY:
            dirty = dirties[int(turn.table[1:])][turn.dirty]
        key = ("worker", r.worker, order[w.id.gen], order[r.tgen], dirty)
        number = self._renamed.get(key)
        if number is None:
            worker_id = replace(w.id, gen=order[w.id.gen], run_id=_rename(w.id.run_id, order))
            turn = turn and replace(turn, dirty=dirty, slices=min(turn.slices, 1), conflicts=0)
            new = replace(w, id=worker_id, turn=turn, has_had_turn=w.has_had_turn and self._limited)
            number = self._renamed.setdefault(key, self._workers.number(new))
        return r._replace(tgen=order[r.tgen], worker=number)


def _token_gen(name: str) -> int:
    return int(name.split(".")[0])


def _rename(name: str, gens: dict[int, int]) -> str:
    tgen, k = name.split(".")
    return run_id(gens[int(tgen)], int(k))
