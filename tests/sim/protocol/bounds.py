"""What the model check explores: small worlds for every run of the tests, larger ones for a soak."""

from __future__ import annotations

from typing import Any

Bounds = dict[str, Any]

SMALL: dict[str, Bounds] = {
    "1 table, 1 slot, 3 commits, 1 zombie": {"commit": 3, "zombie": 1, "triggers": 1},
}
DEEP: dict[str, Bounds] = {
    "1 table, 1 slot, 3 commits, crash 2, zombie": dict(commit=3, crash=2, zombie=1, triggers=1),
    "1 table, 1 slot, 1 commit, every fault": dict(commit=1, crash=1, zombie=1, lose=1, dup=1, nostart=1, wcrash=1, fail=1),
    "1 table, 1 slot, 2 commits, all but zombie": dict(commit=2, crash=1, lose=1, dup=1, nostart=1, wcrash=1),
    "1 table, 1 slot, 2 commits, token forgotten": dict(commit=2, forget=1, nostart=1, wcrash=1, crash=1),
    "1 table, 2 slots, 1 commit, eager, zombie + crash": dict(slots=2, commit=1, eager=True, zombie=1, crash=1),
    "1 table, 2 slots, 2 commits, lazy, zombie": dict(slots=2, commit=2, zombie=1, triggers=1),
    "2 tables, 1 slot, 2 commits, zombie": dict(tables=2, commit=2, zombie=1, triggers=1),
    "2 tables, 1 slot, 3 commits, crash + fail": dict(tables=2, commit=3, crash=1, fail=1, triggers=1),
    "2 tables, 2 slots, 2 commits, eager, crash": dict(tables=2, slots=2, commit=2, eager=True, crash=1, triggers=1),
    "2 tables, 2 slots, 2 commits, lazy, crash + lost": dict(tables=2, slots=2, commit=2, crash=1, lose=1, wcrash=1),
    "no repair, but no hint lost": dict(repair=False, commit=2, wcrash=1, crash=1, dup=1),
    "no sweep, no fault, 1 table": dict(sweep=False, commit=3, dup=1),
    "no sweep, no fault, 2 tables, 2 slots, eager": dict(sweep=False, tables=2, slots=2, commit=2, eager=True),
    "poison: table 0 kills its job": dict(tables=2, commit=2, limit=2, poison="kill", triggers=1),
    "poison: table 0 always fails": dict(tables=2, commit=2, limit=2, poison="raise", triggers=1),
    "poison: no run ever starts": dict(commit=2, limit=2, poison="nostart"),
    "poison: every run dies at start": dict(commit=2, limit=2, poison="diestart"),
}
