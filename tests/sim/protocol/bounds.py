"""Bounds of the model check: small worlds for every test run, larger ones for a soak.

Commits and faults are budgets: each may happen this often, at any time. `crash`: a run dies; `zombie`: a run loses
its lease and continues; `lose`, `dup`: a hint is lost or duplicated; `fail`: a merge fails; `nostart`: a queued run
dies; `forget`: the launcher forgets a token; `wcrash`: a trigger dies between two effects; `rollback`: the mirror is
dropped or rolled back; `recheck`: the head of an up-to-date table is read again; `resume`, `pause`, `replay`,
`cancel`: the user resumes or pauses a table, requests a replay, cancels it; `invalid`: a merge fails with a blocking
error; `old`: a run is launched with a configuration that lacks table 0.
"""

from __future__ import annotations

from typing import Any

Bounds = dict[str, Any]


def within(**bounds: Any) -> Bounds:
    """Return the arguments of a `Model`."""
    return bounds


POISONED: dict[str, Bounds] = {
    "table 0 kills its job": within(tables=2, commit=2, limit=2, poison="kill", triggers=1),
    "table 0 kills its job, triggers die": within(tables=2, commit=2, limit=2, poison="kill", wcrash=1),
    "table 0 always fails": within(tables=2, commit=2, limit=2, poison="raise", triggers=1),
    "a replay of table 0 kills its job": within(
        tables=2, commit=2, replay=1, limit=2, poison="replay kills", triggers=1
    ),
    "a replay always fails": within(commit=1, replay=1, limit=2, poison="replay raises", triggers=1),
    "no run ever starts": within(commit=2, limit=2, poison="nostart"),
    "every run dies at start": within(commit=2, limit=2, poison="diestart"),
    "the launcher never answers": within(commit=2, limit=3, poison="noanswer", wcrash=1),
    "no job knows table 0": within(tables=2, commit=2, limit=2, poison="unknown", triggers=1),
    "no job knows table 0, jobs die": within(
        tables=2, commit=2, limit=2, poison="unknown", crash=1, wcrash=1, triggers=1
    ),
    "no job knows table 0, which is replayed and resumed": within(
        commit=1, replay=1, resume=1, limit=2, poison="unknown", triggers=1
    ),
}
SMALL: dict[str, Bounds] = {
    "1 table, 1 slot, 2 commits, crash, zombie": within(commit=2, crash=1, zombie=1, triggers=1),
    "1 table, 1 slot, 2 commits, all but zombie": within(
        commit=2, crash=1, lose=1, dup=1, nostart=1, wcrash=1
    ),
    "1 table, 1 slot, 1 commit, token forgotten": within(commit=1, forget=1, nostart=1, wcrash=1, crash=1),
    "1 table, 2 slots, 1 commit, eager, zombie": within(slots=2, commit=1, eager=True, zombie=1, triggers=1),
    "1 table, 2 slots, 2 commits, lazy, zombie": within(slots=2, commit=2, zombie=1, triggers=1),
    "2 tables, 1 slot, 2 commits, crash, fail": within(tables=2, commit=2, crash=1, fail=1, triggers=1),
    "2 tables, 2 slots, 2 commits, eager": within(tables=2, slots=2, commit=2, eager=True, triggers=1),
    "2 tables, 2 slots, 2 commits, lazy, crash, lost": within(
        tables=2, slots=2, commit=2, crash=1, lose=1, wcrash=1
    ),
    "no repair, but no hint lost": within(repair=False, commit=2, wcrash=1, crash=1, dup=1),
    "no sweep, no fault, 1 table": within(sweep=False, commit=3, dup=1),
    "no sweep, no fault, 2 tables, 2 slots, eager": within(
        sweep=False, tables=2, slots=2, commit=2, eager=True
    ),
    "polls only, 1 table, 3 commits, crash": within(watch=True, commit=3, crash=1, wcrash=1),
    "polls only, 1 table, 2 commits, zombie": within(watch=True, commit=2, zombie=1, crash=1, triggers=1),
    "polls only, 2 tables, 1 slot, 2 commits, zombie": within(
        watch=True, tables=2, commit=2, zombie=1, triggers=1
    ),
    "polls and hints, 1 table, 2 commits": within(every_poll=True, commit=2, crash=1, dup=1, lose=1),
    "hints without a head, 1 table, 2 commits": within(
        blind_hints=True, every_poll=True, commit=2, crash=1, lose=1
    ),
    "heads with two names, 1 table, 2 commits": within(
        two_names=True, every_poll=True, commit=2, crash=1, lose=1
    ),
    "quiet periods, 1 table, 2 commits": within(quiet=True, commit=2, crash=1, wcrash=1),
    "quiet periods, 2 tables, polls only": within(quiet=True, watch=True, tables=2, commit=2, fail=1),
    "short turns, 2 tables, 3 commits": within(short_turns=True, tables=2, commit=3, triggers=1),
    "short turns, quiet periods, 2 tables": within(
        short_turns=True, quiet=True, tables=2, commit=2, triggers=1
    ),
    "mirror rolled back, 1 table": within(commit=2, rollback=1, recheck=1, resume=1, crash=1, triggers=1),
    "mirror rolled back, polls only, zombie": within(
        watch=True, commit=1, rollback=1, recheck=1, zombie=1, triggers=1
    ),
    "mirror rolled back, 2 tables": within(tables=2, commit=2, rollback=1, recheck=1, triggers=1),
    "limited failures, 1 table": within(commit=1, limit=2, crash=2, wcrash=1, fail=1, nostart=1),
    "replay, 1 table, 1 commit, crash, fail": within(commit=1, replay=1, crash=1, fail=1, triggers=1),
    "replay, 1 table, zombie": within(commit=1, replay=1, zombie=1, triggers=1),
    "replay, 2 slots, eager, zombie": within(slots=2, replay=1, eager=True, zombie=1, triggers=1),
    "two replays, cancelled, 1 table": within(commit=1, replay=2, cancel=1, crash=1, triggers=1),
    "replay, polls only, mirror rolled back": within(
        watch=True, commit=1, replay=1, rollback=1, recheck=1, triggers=1
    ),
    "replay, short turns, 2 tables": within(short_turns=True, tables=2, commit=2, replay=1, triggers=1),
    "replay, quiet periods, 2 tables": within(quiet=True, tables=2, commit=1, replay=1, fail=1, triggers=1),
    "replay, limited failures": within(commit=1, replay=1, limit=2, crash=2, fail=1, triggers=1),
    "quarantine, 1 table": within(commit=2, invalid=1, resume=1, limit=2, fail=1, triggers=1),
    "quarantine and replay": within(commit=1, invalid=2, replay=1, limit=2, fail=1, triggers=1),
    "pause and resume, 1 table": within(commit=2, pause=1, resume=1, crash=1, triggers=1),
    "pause and resume, 2 tables, short turns": within(
        short_turns=True, tables=2, commit=2, pause=1, resume=1, triggers=1
    ),
    "pause, resume and replay": within(commit=1, pause=1, resume=1, replay=1, crash=1, triggers=1),
    "older settings, 2 tables, crash": within(tables=2, commit=2, old=1, crash=1, triggers=1),
    "older settings, 2 slots, eager": within(slots=2, commit=1, old=1, eager=True, triggers=1),
    "older settings, 1 table, zombie": within(commit=1, old=1, zombie=1, triggers=1),
    **{f"poison: {name}": bounds for name, bounds in POISONED.items()},
}
DEEP: dict[str, Bounds] = {
    "1 table, 1 slot, 3 commits, crash 2, zombie": within(commit=3, crash=2, zombie=1, triggers=1),
    "1 table, 1 slot, 1 commit, every fault": within(
        commit=1, crash=1, zombie=1, lose=1, dup=1, nostart=1, wcrash=1, fail=1
    ),
    "1 table, 1 slot, 2 commits, token forgotten": within(commit=2, forget=1, nostart=1, wcrash=1, crash=1),
    "1 table, 2 slots, 1 commit, eager, zombie, crash": within(
        slots=2, commit=1, eager=True, zombie=1, crash=1
    ),
    "2 tables, 1 slot, 2 commits, zombie": within(tables=2, commit=2, zombie=1, triggers=1),
    "2 tables, 1 slot, 3 commits, crash, fail": within(tables=2, commit=3, crash=1, fail=1, triggers=1),
    "2 tables, 2 slots, 2 commits, eager, crash": within(
        tables=2, slots=2, commit=2, eager=True, crash=1, triggers=1
    ),
    "polls only, 2 tables, 2 slots, 2 commits, eager, zombie": within(
        watch=True, tables=2, slots=2, commit=2, eager=True, zombie=1, triggers=1
    ),
    "polls only, 2 tables, 2 slots, eager, crash": within(
        watch=True, tables=2, slots=2, commit=2, eager=True, crash=1, triggers=1
    ),
    "polls only, 1 table, 3 commits, crash 2, zombie": within(
        watch=True, commit=3, crash=2, zombie=1, wcrash=1
    ),
    "short turns, 2 tables, 2 slots, 2 commits, crash": within(
        short_turns=True, tables=2, slots=2, commit=2, eager=True, crash=1, triggers=1
    ),
    "limited failures, 1 table, 2 commits": within(commit=2, limit=2, crash=2, wcrash=1, fail=1, nostart=1),
    "replay, every failure": within(
        commit=1, replay=1, crash=1, fail=1, invalid=1, pause=1, limit=2, triggers=1
    ),
    "two replays, cancelled, zombie": within(replay=2, cancel=1, zombie=1, crash=1, triggers=1),
    "replay, 2 tables, 2 slots, eager, crash": within(
        tables=2, slots=2, commit=1, replay=1, eager=True, crash=1, watch=True, triggers=1
    ),
    "replay, pause, resume, quarantine, cancel": within(
        commit=1, replay=1, cancel=1, pause=1, resume=1, invalid=1, fail=1, limit=2, triggers=1
    ),
    "replay, pause, resume, quarantine, 2 tables": within(
        watch=True, tables=2, commit=1, replay=1, pause=1, resume=1, invalid=1, limit=2, triggers=1
    ),
    "pause, resume, replay, zombie, crash": within(
        commit=1, pause=1, resume=1, replay=1, zombie=1, crash=1, triggers=1
    ),
    "3 tables, 1 slot, 3 commits, crash": within(tables=3, commit=3, watch=True, crash=1, triggers=1),
    "older settings, 2 tables, 2 slots, eager, crash": within(
        tables=2, slots=2, commit=2, old=1, eager=True, crash=1, watch=True, triggers=1
    ),
    "no job knows table 0, 2 slots, eager": within(
        tables=2, slots=2, commit=2, limit=2, poison="unknown", eager=True, watch=True, triggers=1
    ),
}
