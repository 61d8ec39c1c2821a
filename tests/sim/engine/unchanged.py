"""What events mean that leave values as they are, or change the key of their row: told one by one, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.sim.engine.journal import Event, File, Order, Place
from tests.sim.engine.setting import SAME, Key


@dataclass(frozen=True)
class Effect:
    """What an event does to one key; `ends`: the key has no row then."""

    key: Key
    event: Event
    order: Order
    arrival: int
    ends: bool
    place: Place = (0, 0, 0, 0, 0)


def effects_of(file: File, arrival: int = 0) -> Iterator[Effect]:
    """Those of a file's events: one that changes a key is the end of the old one."""
    for place, event in file.good:
        if event.truncates:
            continue
        order = (event.lsn, event.ordinal, file.commit)
        if event.moves and event.old is not None:
            yield Effect(event.old, event, order, arrival, ends=True, place=place)
        yield Effect(event.key, event, order, arrival, ends=event.operation == "D", place=place)
        arrival += 1


def effects(files: Iterable[File], floor: Place | None = None) -> list[Effect]:
    """Those of many files, in the order in which they came; none before the truncation that is followed."""
    found: list[Effect] = []
    for file in files:
        found += effects_of(file, found[-1].arrival + 1 if found else 0)
    return [one for one in found if floor is None or one.place > floor]


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
