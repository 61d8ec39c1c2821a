"""The states that the model check explores: the product's rows and workers, and a small world around them.

Rows and workers are the product's dataclasses, stored once each and referenced by number, so that states are cheap to
compare. `Canonicalizer` maps states that differ only by names to the same form: only the order of generations and of
counters matters, and ended runs are dropped.
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
Value = TypeVar("Value")


class TableWorld(NamedTuple):
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
    """A run that the launcher has accepted. `copy` distinguishes runs of one token that the launcher forgot.

    `old`: its configuration lacks table 0. `at` is the next step of a merge: "locate" on the mirror, "load head" of the
    changelog, "commit" a slice, "replay" (commit a slice of a replay).
    """

    slot: int
    token_gen: int
    copy: int
    worker: int
    at: str = ""
    zombie: int = 0
    old: int = 0
    located_cursor: int = 0
    planned_head: int = 0


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


Call = tuple[
    Any, ...
]  # ("launch", slot, gen), ("record", slot, gen, copy), ("notice", table) or ("dispatch",)


class State(NamedTuple):
    """The whole state. Tables, slots and workers are numbers in `Pool`s."""

    tables: tuple[int, ...]
    slots: tuple[int, ...]
    runs: tuple[Run, ...]
    calls: tuple[Call, ...]
    worlds: tuple[TableWorld, ...]
    budget: Budget


class Pool(Generic[Value]):
    """Stores every distinct value once, by number."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._numbers: dict[Value, int] = {}

    def number(self, value: Value) -> int:
        found = self._numbers.setdefault(value, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found

    def __getitem__(self, number: int) -> Value:
        return self.values[number]


def run_id(token_gen: int, copy: int) -> str:
    return f"{token_gen}.{copy}"


class Canonicalizer:
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

    def __call__(self, state: State) -> State:
        cores = tuple([run[:7] for run in state.runs])
        key = (state.tables, state.slots, cores, state.calls, state.budget.forget > 0)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = self._form(state)
        tables, slots, runs, calls = form
        plans = state.runs
        kept = tuple(
            [Run(*core, *plans[number][7:]) if continues else Run(*core) for core, number, continues in runs]
        )
        return State(tables, slots, kept, calls, state.worlds, state.budget)

    def _form(self, state: State) -> Form:
        tables, slots = (
            [self._tables[number] for number in state.tables],
            [self._slots[number] for number in state.slots],
        )
        all_runs = [self._ended_if_fenced(run, tables, slots) for run in state.runs]
        calls = [
            call
            for call in state.calls
            if not self._irrelevant(call, slots, all_runs, forget=state.budget.forget > 0)
        ]
        runs = [(run, number) for number, run in enumerate(all_runs) if self._is_relevant(run, slots, calls)]
        gens = [
            self._gen_order(index, slots, tables, [run for run, _ in runs], calls)
            for index in range(len(slots))
        ]
        dirties = [
            self._dirty_order(f"t{index}", row, [run for run, _ in runs]) for index, row in enumerate(tables)
        ]
        return (
            tuple(
                self._table(number, order, gens) for number, order in zip(state.tables, dirties, strict=True)
            ),
            tuple(self._slot(number, order) for number, order in zip(state.slots, gens, strict=True)),
            tuple(
                sorted(
                    (self._run(run, gens, dirties)[:7], number, run.worker != self.end)
                    for run, number in runs
                )
            ),
            tuple(
                sorted(
                    (call[0], call[1], gens[call[1]][call[2]], *call[3:]) if len(call) > 2 else call
                    for call in calls
                )
            ),
        )

    def _ended_if_fenced(self, run: Run, tables: list[TableRow], slots: list[SlotRow]) -> Run:
        """Return the run; a fenced run that can only end counts as ended."""
        worker, slot = self._workers[run.worker], slots[run.slot]
        if worker.phase is Phase.END:
            return Run(run.slot, run.token_gen, run.copy, self.end)
        holds_slot = slot.state in ACTIVE and slot.gen == worker.id.gen and slot.run_id == worker.id.run_id
        ends = worker.phase is Phase.RESCAN and (
            slot.state is not SlotState.FREE or slot.gen != worker.id.gen
        )
        if run.zombie and not holds_slot:
            ends |= worker.phase in (Phase.HEARTBEAT, Phase.LINGER, Phase.DECLINE, Phase.LEAVE)
            if worker.phase in (Phase.REPORT, Phase.COMPLETE, Phase.FAIL) and worker.turn and self._strict:
                ends |= tables[int(worker.turn.table[1:])].owner != worker.id.owner
        return Run(run.slot, run.token_gen, run.copy, self.end) if ends else run

    def _irrelevant(self, call: Call, slots: list[SlotRow], runs: list[Run], *, forget: bool) -> bool:
        """Return whether the result of a call is irrelevant."""
        if call[0] not in ("launch", "record") or not self._strict:
            return False
        slot = slots[call[1]]
        if (slot.state, slot.gen, slot.run_id) == (SlotState.LAUNCHING, call[2], None):
            return False
        return call[0] == "record" or (
            not forget and any((run.slot, run.token_gen) == call[1:3] for run in runs)
        )

    def _is_relevant(self, run: Run, slots: list[SlotRow], calls: list[Call]) -> bool:
        slot = slots[run.slot]
        polled = slot.state is not SlotState.FREE and (
            slot.gen == run.token_gen or slot.run_id == run_id(run.token_gen, run.copy)
        )
        launching = any(call[0] != "notice" and call[1:3] == (run.slot, run.token_gen) for call in calls)
        return run.worker != self.end or polled or launching

    def _gen_order(
        self, index: int, slots: list[SlotRow], tables: list[TableRow], runs: list[Run], calls: list[Call]
    ) -> dict[int, int]:
        used = {0, slots[index].gen}
        for run in runs:
            if run.slot == index:
                used.add(run.token_gen)
                if run.worker != self.end:
                    used.add(self._workers[run.worker].id.gen)
        used |= {call[2] for call in calls if call[0] in ("launch", "record") and call[1] == index}
        used |= {row.owner.gen for row in tables if row.owner and row.owner.slot.index == index}
        if run_id := slots[index].run_id:
            used.add(_token_gen(run_id))
        return {gen: order for order, gen in enumerate(sorted(used))}

    def _dirty_order(self, name: str, row: TableRow, runs: list[Run]) -> dict[int, int]:
        used = {row.dirty, row.covered}
        for run in runs:
            worker = self._workers[run.worker]
            if worker.turn and worker.turn.table == name and worker.phase in HAS_DIRTY:
                used.add(worker.turn.dirty)
        return {dirty: order for order, dirty in enumerate(sorted(used))}

    def _table(self, number: int, dirty: dict[int, int], gens: list[dict[int, int]]) -> int:
        row = self._tables[number]
        owner = row.owner and Owner(row.owner.slot, gens[row.owner.slot.index][row.owner.gen])
        key = ("table", number, dirty[row.dirty], dirty[row.covered], owner)
        if (found := self._renamed.get(key)) is not None:
            return found
        clean = row.dirty == row.covered
        new = replace(
            row,
            dirty=dirty[row.dirty],
            covered=dirty[row.covered],
            owner=owner,
            not_before=0.0 if row.quarantined else min(row.not_before, 1.0),
            failures=row.failures if self._limited else 0,
            first_dirty_at=0.0 if clean else row.first_dirty_at,
            last_dirty_at=0.0 if clean else row.last_dirty_at,
            yielded_at=row.yielded_at if self._quiet else None,
            completed_at=None if row.completed_at is None else 0.0,
            error=None,
            last_replay=row.last_replay and replace(row.last_replay, error=None, progress=None),
        )
        return self._renamed.setdefault(key, self._tables.number(new))

    def _slot(self, number: int, gens: dict[int, int]) -> int:
        slot = self._slots[number]
        name = slot.run_id and _rename(slot.run_id, gens)
        key = ("slot", number, gens[slot.gen], name)
        if (found := self._renamed.get(key)) is not None:
            return found
        new = replace(
            slot,
            gen=gens[slot.gen],
            run_id=name,
            lease_until=0.0 if slot.state is SlotState.FREE else 1.0,
            failures=slot.failures if self._limited else 0,
            # Waiting before a slot is taken equals a late dispatch, which is explored anyway.
            not_before=math.inf if slot.quarantined else 0.0,
            error=None,
            # If every worker knows all tables, it is irrelevant which of them it was launched for.
            wanted=() if self._knowing else slot.wanted,
        )
        return self._renamed.setdefault(key, self._slots.number(new))

    def _run(self, run: Run, gens: list[dict[int, int]], dirties: list[dict[int, int]]) -> Run:
        order = gens[run.slot]
        if run.worker == self.end:
            return Run(run.slot, order[run.token_gen], run.copy, self.end)
        worker = self._workers[run.worker]
        turn, dirty = worker.turn, 0
        if turn and worker.phase in HAS_DIRTY:
            dirty = dirties[int(turn.table[1:])][turn.dirty]
        key = ("worker", run.worker, order[worker.id.gen], order[run.token_gen], dirty)
        number = self._renamed.get(key)
        if number is None:
            worker_id = replace(worker.id, gen=order[worker.id.gen], run_id=_rename(worker.id.run_id, order))
            turn = turn and replace(turn, dirty=dirty, slices=min(turn.slices, 1), conflicts=0)
            new = replace(worker, id=worker_id, turn=turn, has_had_turn=worker.has_had_turn and self._limited)
            number = self._renamed.setdefault(key, self._workers.number(new))
        return run._replace(token_gen=order[run.token_gen], worker=number)


def _token_gen(name: str) -> int:
    return int(name.split(".")[0])


def _rename(name: str, gens: dict[int, int]) -> str:
    token_gen, copy = name.split(".")
    return run_id(gens[int(token_gen)], int(copy))
