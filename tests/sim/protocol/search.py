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
    predecessors: list[list[int]] = [[]]
    degree: list[int] = []

    def trace(number: int) -> list[str]:
        steps = []
        while number > 0:
            number, label = parent[number]
            steps.append(label)
        return steps[::-1]

    for number, state in enumerate(states):  # the list grows during the loop
        degree.append(0)
        if number > cap:
            return Verdict(number, "state cap reached", [])
        for is_fault, label, new in model.successors(state):
            if isinstance(new, Violation):
                return Verdict(len(states), new.why, [*trace(number), label])
            found = ids.get(new)
            if found is None:
                canonical = model.canonicalize(new)
                found = ids.setdefault(canonical, len(states))
                if found == len(states):
                    states.append(canonical)
                    predecessors.append([])
                    parent.append((number, sys.intern(label)))
                    if why := model.violation(canonical):
                        return Verdict(len(states), why, trace(found))
            if not is_fault and found != number:
                degree[number] += 1
                predecessors[found].append(number)
    return _liveness(model, states, ids, predecessors, degree, trace)


def _liveness(
    model: Model,
    states: list[State],
    ids: dict[State, int],
    predecessors: list[list[int]],
    degree: list[int],
    trace: Callable[[int], list[str]],
) -> Verdict:
    """Remove states whose fault-free successors are all removed; the remaining ones can run forever."""
    todo = [number for number, left in enumerate(degree) if left == 0]
    for number in todo:
        if not model.is_final(states[number]):
            return Verdict(len(states), "L1 work lost or stuck", trace(number))
    while todo:
        for before in predecessors[todo.pop()]:
            degree[before] -= 1
            if degree[before] == 0:
                todo.append(before)
    at = next((number for number, left in enumerate(degree) if left), None)
    if at is None:
        return Verdict(len(states), "", [])
    seen: dict[int, int] = {}
    path: list[str] = []
    while at not in seen:  # follow the remaining states until they form a loop, to report it
        seen[at] = len(path)
        steps = [
            (ids[model.canonicalize(new)], label)
            for fault, label, new in model.successors(states[at])
            if not fault
        ]
        at, label = next((number, label) for number, label in steps if degree[number] and number != at)
        path.append(label)
    loop = path[seen[at] :]
    why = "L2 launches forever" if "launch" in loop else "L2 livelock"
    return Verdict(len(states), why, [*trace(at), "LOOP", *loop])
