"""Breadth-first search of all reachable states of a model, then of all paths to its final states."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import NamedTuple

from tests.sim.protocol.model import Model
from tests.sim.protocol.runs import Violation
from tests.sim.protocol.world import State


class Verdict(NamedTuple):
    """The number of states, the violation ("" if none), and the steps that lead to it."""

    states: int
    why: str
    trace: list[str]


def check(model: Model, cap: int = 5_000_000) -> Verdict:
    """Check safety in every state, and liveness from every state."""
    gc.disable()  # millions of small tuples without cycles: the collector would scan them repeatedly
    try:
        return _check(model, cap)
    finally:
        gc.enable()


def _check(model: Model, cap: int) -> Verdict:
    states = [model.start()]
    ids = {states[0]: 0}
    parent: list[tuple[int, str]] = [(-1, "")]
    preds: list[list[int]] = [[]]
    degree: list[int] = []

    def trace(i: int) -> list[str]:
        steps = []
        while i > 0:
            i, label = parent[i]
            steps.append(label)
        return steps[::-1]

    for n, state in enumerate(states):  # the list grows during the loop
        degree.append(0)
        if n > cap:
            return Verdict(n, "state cap reached", [])
        for is_fault, label, new in model.successors(state):
            if isinstance(new, Violation):
                return Verdict(len(states), new.why, [*trace(n), label])
            found = ids.get(new)
            if found is None:
                canonical = model.canon(new)
                found = ids.setdefault(canonical, len(states))
                if found == len(states):
                    states.append(canonical)
                    preds.append([])
                    parent.append((n, sys.intern(label)))
                    if why := model.violation(canonical):
                        return Verdict(len(states), why, trace(found))
            if not is_fault and found != n:
                degree[n] += 1
                preds[found].append(n)
    return _liveness(model, states, ids, preds, degree, trace)


def _liveness(
    model: Model,
    states: list[State],
    ids: dict[State, int],
    preds: list[list[int]],
    degree: list[int],
    trace: Callable[[int], list[str]],
) -> Verdict:
    """Remove states whose fault-free successors are all removed; the remaining ones can run forever."""
    todo = [i for i, left in enumerate(degree) if left == 0]
    for i in todo:
        if not model.is_final(states[i]):
            return Verdict(len(states), "L1 work lost or stuck", trace(i))
    while todo:
        for before in preds[todo.pop()]:
            degree[before] -= 1
            if degree[before] == 0:
                todo.append(before)
    at = next((i for i, left in enumerate(degree) if left), None)
    if at is None:
        return Verdict(len(states), "", [])
    seen: dict[int, int] = {}
    path: list[str] = []
    while at not in seen:  # follow the remaining states until they form a loop, to report it
        seen[at] = len(path)
        steps = [
            (ids[model.canon(new)], label) for fault, label, new in model.successors(states[at]) if not fault
        ]
        at, label = next((i, label) for i, label in steps if degree[i] and i != at)
        path.append(label)
    loop = path[seen[at] :]
    why = "L2 launches forever" if "launch" in loop else "L2 livelock"
    return Verdict(len(states), why, [*trace(at), "LOOP", *loop])
