"""What became of each event of one key, as merging decides it, event by event in the order in which they came. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from spark_job.changelog.changes import Changes
from spark_job.changelog.shape import Operation
from spark_job.key_index.keys import U64, Indices
from spark_job.key_index.orders import compare_orders
from spark_job.locate import ABSENT, DEAD, Located, decide


class Fate(StrEnum):
    """What an event did."""

    MADE_ROW = "made-row"
    DELETED_ROW = "deleted-row"
    OVERTAKEN = "overtaken"  # counted, until a newer one came
    LATE = "late"  # was older than what was there when it came
    TRUNCATED = "truncated"  # lies before a truncation of the source
    WAITING = "waiting"


_OUTDATED: tuple[Fate, int | None] = (Fate.TRUNCATED, None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`by`: the event that overtook it, or that was there when it came; None: what was there is of no event we see.

    `will`: what a waiting one does, if nothing else comes. `repeat_of`: the first event that says exactly the same.
    """

    fate: Fate
    by: int | None = None
    will: Fate | None = None
    repeat_of: int | None = None


@dataclass(frozen=True)
class KeyEvents:
    """All events of one key in the order in which they came; the first `merged` of them are merged.

    `numbers`: the changelog's commit of each; `digests`: one number for the row that each tells of. `outdated`: the
    places of those that lie before a truncation of the source.
    """

    changes: Changes
    numbers: U64
    digests: Sequence[int]
    merged: int
    outdated: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def orders(self) -> U64:
        """Sequence and changelog snapshot, as the index knows them."""
        return np.column_stack([self.changes.sequence, self.numbers])

    @property
    def counted(self) -> Indices:
        """The places of those that are merged and count."""
        return np.array([at for at in range(self.merged) if at not in self.outdated], dtype=np.intp)

    def does(self, at: int) -> Operation:
        """What an event does to its key."""
        return Operation(int(self.changes.operation[at]))


def judge(events: KeyEvents, standing: tuple[int, ...] | None = None) -> list[Verdict]:
    """The verdict on each event. `standing`: the order that the index has for the key, if it knows one."""
    came = _Arrivals(events)
    for at in events.counted.tolist():
        came.arrive(at)
    made = came.holder
    if standing is not None and made is not None and is_outranked(events, made, standing):
        came.outrank(standing)
    merged = came.fates()
    for at in range(events.merged, len(events)):
        if at not in events.outdated:
            came.arrive(at)
    later = came.fates()
    repeats = _repeats(events)
    verdicts: list[Verdict] = []
    for at in range(len(events)):
        if at < events.merged:
            fate, by = merged.get(at, _OUTDATED)
            verdicts.append(Verdict(fate, by, None, repeats[at]))
        else:
            will, by = later.get(at, _OUTDATED)
            verdicts.append(Verdict(Fate.WAITING, by, will, repeats[at]))
    return verdicts


def is_outranked(events: KeyEvents, at: int, standing: tuple[int, ...]) -> bool:
    """Whether what the index knows has a greater sequence.

    Numbers of commits do not count: whoever compacts a changelog whose snapshots expire gives its events others.
    """
    known = np.array([standing[:-1]], dtype=np.uint64)
    return bool(compare_orders(events.changes.sequence[at : at + 1], known)[0] < 0)


class _Arrivals:
    """Merges one event after the other, as slices of one event each."""

    def __init__(self, events: KeyEvents) -> None:
        self.holder: int | None = None
        self._events = events
        self._orders = events.orders
        self._standing: U64 | None = None
        self._by: dict[int, int | None] = {}
        self._late: set[int] = set()

    def arrive(self, at: int) -> None:
        order, known = self._orders[at : at + 1], self._standing
        newer = np.ones(1, dtype=np.int8) if known is None else compare_orders(order, known)
        file = np.array([ABSENT if known is None else DEAD], dtype=np.int32)
        located = Located(file, np.zeros(1, dtype=np.int64), newer)
        done = decide(self._events.changes.take(np.array([at])), located)
        if done.writes[0] or done.tombstones[0]:
            if self.holder is not None:
                self._by[self.holder] = at
            self.holder, self._standing = at, order
        else:
            self._by[at] = self.holder
            self._late.add(at)

    def outrank(self, standing: tuple[int, ...]) -> None:
        """What is there came from elsewhere, and is newer than all so far."""
        if self.holder is not None:
            self._by[self.holder] = None
            self._late.add(self.holder)
        self.holder, self._standing = None, np.array([standing], dtype=np.uint64)

    def fates(self) -> dict[int, tuple[Fate, int | None]]:
        """What each that came so far did until now."""
        found: dict[int, tuple[Fate, int | None]] = {
            at: (Fate.LATE if at in self._late else Fate.OVERTAKEN, by) for at, by in self._by.items()
        }
        if self.holder is not None:
            upsert = self._events.does(self.holder) is Operation.UPSERT
            found[self.holder] = (Fate.MADE_ROW if upsert else Fate.DELETED_ROW, None)
        return found


def _repeats(events: KeyEvents) -> list[int | None]:
    """For each event the first one of the same sequence that does and tells the same, if it is another."""
    first: dict[tuple[object, ...], int] = {}
    found: list[int | None] = []
    for at in range(len(events)):
        does = events.does(at)
        told = events.digests[at] if does is Operation.UPSERT else 0
        original = first.setdefault((*events.changes.sequence[at].tolist(), does, told), at)
        found.append(None if original == at else original)
    return found
