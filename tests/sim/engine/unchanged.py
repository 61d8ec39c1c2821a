"""What events mean that leave values as they are, or change the key of their row: told one by one, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.sim.engine.journal import Event, File, Order
from tests.sim.engine.setting import SAME, Key


@dataclass(frozen=True)
class Effect:
    """What an event does to one key; `ends`: the key has no row then."""

    key: Key
    event: Event
    order: Order
    arrival: int
    ends: bool


def effects_of(file: File, arrival: int = 0) -> Iterator[Effect]:
    """Those of a file's events: one that changes a key is the end of the old one."""
    for event in file.good:
        order = (event.lsn, event.ordinal, file.commit)
        if event.moves and event.old is not None:
            yield Effect(event.old, event, order, arrival, ends=True)
        yield Effect(event.key, event, order, arrival, ends=event.operation == "D")
        arrival += 1


def effects(files: Iterable[File]) -> list[Effect]:
    """Those of many files, in the order in which they came."""
    found: list[Effect] = []
    for file in files:
        found += effects_of(file, found[-1].arrival + 1 if found else 0)
    return found


@dataclass(frozen=True)
class Searched:
    """`told`: some event says what the value is. `ended`: nothing before counts."""

    value: str | None = None
    told: bool = False
    ended: bool = False


def look_back(winner: Event, earlier: Sequence[Effect]) -> Searched:
    """The value that an event leaves as it was, by those before it, the last of them first."""
    if winner.moves:
        return Searched(ended=True)
    for effect in earlier:
        if effect.ends:
            return Searched(ended=True)
        if effect.event.c != SAME:
            return Searched(effect.event.c, told=True)
        if effect.event.moves:
            return Searched(ended=True)
    return Searched()
