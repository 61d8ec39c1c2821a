"""Everything about a range of keys, compared: events with rows, entries of the index with rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spark_job.changelog.changes import LEFT, Changes
from spark_job.changelog.shape import Operation
from spark_job.key_index.keys import Indices, Keys, Mask, are_among, last_not_above
from spark_job.unchanged.look_back import lowest_reachable
from spark_job.verify.findings import MOST_PLACES, Kind
from spark_job.verify.row_digest import UNCHANGED

ENTRY = 2
TOMBSTONE_ENTRY = 3
ROW = 4  # and one bit each for rows of the head and rows of the index's snapshot
OF_HEAD = 1
OF_INDEX = 2


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a difference is: a row of the mirror, an event of the changelog, a segment; by numbers of the work."""

    file: int | None = None
    row: int | None = None
    event_file: int | None = None
    event_row: int | None = None
    segment: int | None = None


@dataclass(frozen=True)
class Compared:
    """How many differences of each kind a range of keys has, with a few of the spots."""

    counts: Mapping[Kind, int]
    spots: Mapping[Kind, tuple[Spot, ...]]
    rows: int = 0
    events: int = 0
    entries: int = 0
    paths: list[str] = field(default_factory=list)


def compare_changelog(
    changes: Changes, values: int = 1, *, keeps_deleted: bool = False
) -> Iterator[tuple[Kind, int, list[Spot]]]:
    """The rows that the latest event of each key gives, beside those of the head.

    The last columns of `sequence`, `values` of them, are not part of the order: they tell one row from another. Where
    deletes keep their rows (`keeps_deleted`), the first of these columns is the flag.
    """
    events = latest_events(changes.take(changes.operation < ENTRY), values, keeps_deleted=keeps_deleted)
    rows = _by_key(changes.take(_has(changes, OF_HEAD)))
    doubles = np.flatnonzero(rows.keys.same_as_next()) + 1
    yield Kind.DOUBLED_KEY, len(doubles), _row_spots(rows, doubles)
    upserts = events.take(events.operation == Operation.UPSERT)
    missing = np.flatnonzero(~are_among(upserts.keys, rows.keys))
    yield Kind.MISSING_ROW, len(missing), _event_spots(upserts, missing)
    expected = events if keeps_deleted else upserts
    not_kept = np.flatnonzero((expected.operation != Operation.UPSERT) & ~are_among(expected.keys, rows.keys))
    yield Kind.NOT_KEPT, len(not_kept), _event_spots(expected, not_kept)
    known, alive = are_among(rows.keys, events.keys), are_among(rows.keys, expected.keys)
    both = np.flatnonzero(alive)
    made_by = last_not_above(expected.keys, rows.keys.take(both)) if len(both) else both
    if keeps_deleted:  # what is not flagged looks alive
        unflagged = (expected.operation[made_by] != Operation.UPSERT) & (rows.sequence[both, -values] == 0)
        alive[both[unflagged]] = False
        both, made_by = both[~unflagged], made_by[~unflagged]
    foreign, undead = np.flatnonzero(~known), np.flatnonzero(known & ~alive)
    yield Kind.FOREIGN_ROW, len(foreign), _row_spots(rows, foreign)
    yield Kind.DELETED_ROW, len(undead), _row_spots(rows, undead)
    told = expected.sequence[made_by, -values:]
    unlike = ((rows.sequence[both, -values:] != told) & (told != UNCHANGED)).any(axis=1)
    spots = [
        Spot(int(rows.file[at]), int(rows.row[at]), int(expected.file[by]), int(expected.row[by]))
        for at, by in zip(both[unlike][:MOST_PLACES], made_by[unlike][:MOST_PLACES], strict=True)
    ]
    yield Kind.DIFFERENT_ROW, int(unlike.sum()), spots


def latest_events(events: Changes, values: int = 1, *, keeps_deleted: bool = False) -> Changes:
    """Of each key the event that is last by (sequence, place), ascending by key.

    Values that have not changed are those of events before, as far as these tell them. A delete that keeps its row is
    one of these, unless it is the first of its key; it stands at the place of the event whose row it keeps.
    """
    parts = [events.sequence[:, part] for part in reversed(range(events.sequence.shape[1] - values))]
    keys = [events.keys.lo] if events.keys.hi is None else [events.keys.lo, events.keys.hi]
    order = np.lexsort([events.places, *parts, *keys])
    if not len(order):
        return events
    told = events.take(order)
    last = np.append(~told.keys.same_as_next(), True)
    if keeps_deleted:
        return _kept(told, last, values).take(last)
    return (told if values == 1 else _carried_on(told, last, values)).take(last)


def _kept(told: Changes, last: Mask, values: int) -> Changes:
    """Events by key and order; deletes with the row that was there, and the flag."""
    deletes, place = told.operation == Operation.DELETE, np.arange(len(told))
    first = np.append(True, last[:-1])
    # The end of a key that was changed has the row of another one.
    silent = deletes & ~(first & ~told.are(LEFT))
    sequence = told.sequence.copy()
    sequence[:, -values] = deletes
    sequence[silent, 1 - values :] = UNCHANGED
    upserts = np.zeros_like(told.operation)
    carried = _carried_on(replace(told, sequence=sequence, operation=upserts), last, values)
    beginning = np.maximum.accumulate(np.where(first, place, 0))
    told_by = np.maximum(np.maximum.accumulate(np.where(silent, 0, place)), beginning)
    return replace(
        carried, operation=told.operation, file=told.file[told_by], row=told.row[told_by], moves=told.moves
    )


def _carried_on(told: Changes, last: Mask, values: int) -> Changes:
    """Events by key and order, each with the values that those before it leave unchanged."""
    place = np.arange(len(told))
    first = np.maximum.accumulate(np.where(np.append(True, last[:-1]), place, 0))
    lowest = lowest_reachable(told, first)
    sequence = told.sequence.copy()
    for column in range(sequence.shape[1] - values, sequence.shape[1]):
        own = sequence[:, column]
        known = np.maximum.accumulate(np.where(own != UNCHANGED, place, 0))
        sequence[:, column] = np.where(known >= lowest, own[known], UNCHANGED)
    return replace(told, sequence=sequence)


def compare_index(
    changes: Changes, ordinals: NDArray[np.int64], runs: NDArray[np.int64]
) -> Iterator[tuple[Kind, int, list[Spot]]]:
    """The first entry of each key beside the rows of the index's snapshot.

    `ordinals`: what each file of the work is called in the index; `runs`: the run of each segment. The last column of
    `sequence` of an entry is the number of its segment.
    """
    entries = changes.take((changes.operation == ENTRY) | (changes.operation == TOMBSTONE_ENTRY))
    segment = entries.sequence[:, -1]
    keys = [entries.keys.lo] if entries.keys.hi is None else [entries.keys.lo, entries.keys.hi]
    order = np.lexsort([segment, *keys])
    entries, segment = entries.take(order), segment[order].astype(np.intp)
    same = entries.keys.same_as_next()
    twice = np.flatnonzero(same & (runs[segment[1:]] == runs[segment[:-1]])) + 1 if len(segment) else _none()
    yield Kind.INDEXED_TWICE, len(twice), [Spot(segment=int(segment[at])) for at in twice[:MOST_PLACES]]
    first = np.concatenate([[True], ~same]) if len(entries) else np.empty(0, dtype=np.bool_)
    live = first & (entries.operation == ENTRY)
    entries, segment = entries.take(live), segment[live]
    rows = _by_key(changes.take(_has(changes, OF_INDEX)))
    extra = np.flatnonzero(~are_among(entries.keys, rows.keys))
    yield Kind.NO_SUCH_ROW, len(extra), [Spot(segment=int(segment[at])) for at in extra[:MOST_PLACES]]
    known = are_among(rows.keys, entries.keys)
    absent = np.flatnonzero(~known)
    yield Kind.NOT_INDEXED, len(absent), _row_spots(rows, absent)
    there = np.flatnonzero(known)
    at = last_not_above(entries.keys, rows.keys.take(there)) if len(there) else there
    elsewhere = ordinals[rows.file[there].astype(np.intp)] != entries.file[at].astype(np.int64)
    elsewhere |= rows.row[there] != entries.row[at]
    spots = [
        Spot(int(rows.file[row]), int(rows.row[row]), segment=int(segment[entry]))
        for row, entry in zip(there[elsewhere][:MOST_PLACES], at[elsewhere][:MOST_PLACES], strict=True)
    ]
    yield Kind.WRONG_PLACE, int(elsewhere.sum()), spots


def _has(changes: Changes, bit: int) -> Mask:
    found: Mask = (changes.operation >= ROW) & ((changes.operation & bit) > 0)
    return found


def _by_key(changes: Changes) -> Changes:
    return changes.take(changes.keys.argsort())


def _none() -> Indices:
    return np.empty(0, dtype=np.intp)


def _row_spots(rows: Changes, places: Indices) -> list[Spot]:
    return [Spot(int(rows.file[at]), int(rows.row[at])) for at in places[:MOST_PLACES]]


def _event_spots(events: Changes, places: Indices) -> list[Spot]:
    return [
        Spot(event_file=int(events.file[at]), event_row=int(events.row[at])) for at in places[:MOST_PLACES]
    ]


def no_keys(wide: bool) -> Keys:
    """No key, of either width."""
    nothing = np.empty(0, dtype=np.uint64)
    return Keys(nothing, nothing if wide else None)
