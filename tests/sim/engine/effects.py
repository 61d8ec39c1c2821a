"""The effects of events that leave values unchanged or change the key of their row, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.sim.engine.journal import Event, EventPosition, File, Order
from tests.sim.engine.setting import SAME, Key


@dataclass(frozen=True)
class Effect:
    """The effect of an event on one key; `ends`: the key has no row afterwards."""

    key: Key
    event: Event
    order: Order
    arrival: int
    ends: bool
    position: EventPosition = (0, 0, 0, 0, 0)


def effects_of(file: File, arrival: int = 0) -> Iterator[Effect]:
    """Yield the effects of a file; an event that changes a key also ends the old one."""
    for position, event in file.good:
        if event.truncates:
            continue
        order = (event.lsn, event.ordinal, file.commit)
        if event.moves and event.old is not None:
            yield Effect(event.old, event, order, arrival, ends=True, position=position)
        yield Effect(event.key, event, order, arrival, ends=event.operation == "D", position=position)
        arrival += 1


def effects(files: Iterable[File], floor: EventPosition | None = None) -> list[Effect]:
    """Return the effects of many files in order of arrival; none before the followed truncation."""
    found: list[Effect] = []
    for file in files:
        found += effects_of(file, found[-1].arrival + 1 if found else 0)
    return [effect for effect in found if floor is None or effect.position > floor]


@dataclass(frozen=True)
class FoundValue:
    """`found`: an event has the value. `ended`: earlier events do not count."""

    value: str | None = None
    found: bool = False
    ended: bool = False


def find_value(winner: Event, earlier: Sequence[Effect]) -> FoundValue:
    """Find the value that an event leaves unchanged in earlier effects, newest first."""
    if winner.moves:
        return FoundValue(ended=True)
    for effect in earlier:
        if effect.ends:
            return FoundValue(ended=True)
        if effect.event.c != SAME:
            return FoundValue(effect.event.c, found=True)
        if effect.event.moves:
            return FoundValue(ended=True)
    return FoundValue()
