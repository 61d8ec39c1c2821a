"""Compares a range of keys: events of the changelog with rows, entries of the index with rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spark_job.changelog.changes import OLD_KEY, Changes
from spark_job.changelog.shape import Operation
from spark_job.index.keys import Indices, Keys, Mask, floor_indices, isin_sorted
from spark_job.inspect.verify.row_digest import UNCHANGED
from spark_job.inspect.verify.verify_report import MAX_LOCATIONS, FindingKind
from spark_job.merge.previous_values import lowest_reachable

ENTRY = 2
TOMBSTONE_ENTRY = 3
ROW = 4  # plus a bit for rows of the head, and one for rows of the index's snapshot
OF_HEAD = 1
OF_INDEX = 2


@dataclass(frozen=True, slots=True)
class DifferenceLocation:
    """Where a difference is: a row of the mirror, an event of the changelog or a segment, by number in the work."""

    file: int | None = None
    row: int | None = None
    event_file: int | None = None
    event_row: int | None = None
    segment: int | None = None


@dataclass(frozen=True)
class ComparedRange:
    """The differences in a range of keys: counts by kind, and a few locations."""

    counts: Mapping[FindingKind, int]
    locations: Mapping[FindingKind, tuple[DifferenceLocation, ...]]
    rows: int = 0
    events: int = 0
    entries: int = 0
    paths: list[str] = field(default_factory=list)


def compare_with_changelog(
    changes: Changes, values: int = 1, *, keeps_deleted_rows: bool = False
) -> Iterator[tuple[FindingKind, int, list[DifferenceLocation]]]:
    """Compare the row that the latest event of each key gives with the row of the head.

    The last `values` columns of `sequence` are not part of the order: they are hashes of the row's values. With soft
    deletes (`keeps_deleted_rows`) the first of them is the flag.
    """
    events = latest_events(
        changes.take(changes.operation < ENTRY), values, keeps_deleted_rows=keeps_deleted_rows
    )
    rows = _by_key(changes.take(_has(changes, OF_HEAD)))
    duplicates = np.flatnonzero(rows.keys.same_as_next()) + 1
    yield FindingKind.DOUBLED_KEY, len(duplicates), _row_locations(rows, duplicates)
    upserts = events.take(events.operation == Operation.UPSERT)
    missing = np.flatnonzero(~isin_sorted(upserts.keys, rows.keys))
    yield FindingKind.MISSING_ROW, len(missing), _event_locations(upserts, missing)
    expected = events if keeps_deleted_rows else upserts
    not_flagged = np.flatnonzero(
        (expected.operation != Operation.UPSERT) & ~isin_sorted(expected.keys, rows.keys)
    )
    yield FindingKind.SOFT_DELETE_MISSING, len(not_flagged), _event_locations(expected, not_flagged)
    known, alive = isin_sorted(rows.keys, events.keys), isin_sorted(rows.keys, expected.keys)
    both = np.flatnonzero(alive)
    made_by = floor_indices(expected.keys, rows.keys.take(both)) if len(both) else both
    if keeps_deleted_rows:  # a row without the flag is live
        unflagged = (expected.operation[made_by] != Operation.UPSERT) & (rows.sequence[both, -values] == 0)
        alive[both[unflagged]] = False
        both, made_by = both[~unflagged], made_by[~unflagged]
    foreign, wrongly_live = np.flatnonzero(~known), np.flatnonzero(known & ~alive)
    yield FindingKind.FOREIGN_ROW, len(foreign), _row_locations(rows, foreign)
    yield FindingKind.DELETED_ROW, len(wrongly_live), _row_locations(rows, wrongly_live)
    wanted = expected.sequence[made_by, -values:]
    differs = ((rows.sequence[both, -values:] != wanted) & (wanted != UNCHANGED)).any(axis=1)
    locations = [
        DifferenceLocation(
            int(rows.file[at]), int(rows.row[at]), int(expected.file[event]), int(expected.row[event])
        )
        for at, event in zip(both[differs][:MAX_LOCATIONS], made_by[differs][:MAX_LOCATIONS], strict=True)
    ]
    yield FindingKind.DIFFERENT_ROW, int(differs.sum()), locations


def latest_events(events: Changes, values: int = 1, *, keeps_deleted_rows: bool = False) -> Changes:
    """Return for each key the last event by (sequence, position), ascending by key.

    Values marked as unchanged are taken from earlier events, if these have them. A soft delete keeps all values,
    unless it is the first event of its key; it is reported at the position of the event whose row it keeps.
    """
    parts = [events.sequence[:, part] for part in reversed(range(events.sequence.shape[1] - values))]
    keys = [events.keys.lo] if events.keys.hi is None else [events.keys.lo, events.keys.hi]
    order = np.lexsort([events.positions, *parts, *keys])
    if not len(order):
        return events
    ordered = events.take(order)
    last = np.append(~ordered.keys.same_as_next(), True)
    if keeps_deleted_rows:
        return _apply_soft_deletes(ordered, last, values).take(last)
    return (ordered if values == 1 else _carry_values(ordered, last, values)).take(last)


def _apply_soft_deletes(events: Changes, last: Mask, values: int) -> Changes:
    """Give deletes the values of the row before them, and the flag; events are sorted by key and order."""
    deletes, position = events.operation == Operation.DELETE, np.arange(len(events))
    first = np.append(True, last[:-1])
    # The event that moved a row to another key has the values of that other key.
    keeps_values = deletes & ~(first & ~events.has_move(OLD_KEY))
    sequence = events.sequence.copy()
    sequence[:, -values] = deletes
    sequence[keeps_values, 1 - values :] = UNCHANGED
    upserts = np.zeros_like(events.operation)
    carried = _carry_values(replace(events, sequence=sequence, operation=upserts), last, values)
    first_of_key = np.maximum.accumulate(np.where(first, position, 0))
    kept_from = np.maximum(np.maximum.accumulate(np.where(keeps_values, 0, position)), first_of_key)
    return replace(
        carried,
        operation=events.operation,
        file=events.file[kept_from],
        row=events.row[kept_from],
        moves=events.moves,
    )


def _carry_values(events: Changes, last: Mask, values: int) -> Changes:
    """Carry values over events that mark them as unchanged; events are sorted by key and order."""
    position = np.arange(len(events))
    first = np.maximum.accumulate(np.where(np.append(True, last[:-1]), position, 0))
    lowest = lowest_reachable(events, first)
    sequence = events.sequence.copy()
    for column in range(sequence.shape[1] - values, sequence.shape[1]):
        values_of_column = sequence[:, column]
        known = np.maximum.accumulate(np.where(values_of_column != UNCHANGED, position, 0))
        sequence[:, column] = np.where(known >= lowest, values_of_column[known], UNCHANGED)
    return replace(events, sequence=sequence)


def compare_with_index(
    changes: Changes, ordinals: NDArray[np.int64], runs: NDArray[np.int64]
) -> Iterator[tuple[FindingKind, int, list[DifferenceLocation]]]:
    """Compare the newest entry of each key with the rows of the index's snapshot.

    `ordinals`: the ordinal of each file in the index. `runs`: the run of each segment. The last column of `sequence`
    of an entry is the number of its segment.
    """
    entries = changes.take((changes.operation == ENTRY) | (changes.operation == TOMBSTONE_ENTRY))
    segment = entries.sequence[:, -1]
    keys = [entries.keys.lo] if entries.keys.hi is None else [entries.keys.lo, entries.keys.hi]
    order = np.lexsort([segment, *keys])
    entries, segment = entries.take(order), segment[order].astype(np.intp)
    same = entries.keys.same_as_next()
    twice = np.flatnonzero(same & (runs[segment[1:]] == runs[segment[:-1]])) + 1 if len(segment) else _none()
    yield (
        FindingKind.INDEXED_TWICE,
        len(twice),
        [DifferenceLocation(segment=int(segment[at])) for at in twice[:MAX_LOCATIONS]],
    )
    first = np.concatenate([[True], ~same]) if len(entries) else np.empty(0, dtype=np.bool_)
    live = first & (entries.operation == ENTRY)
    entries, segment = entries.take(live), segment[live]
    rows = _by_key(changes.take(_has(changes, OF_INDEX)))
    extra = np.flatnonzero(~isin_sorted(entries.keys, rows.keys))
    yield (
        FindingKind.NO_SUCH_ROW,
        len(extra),
        [DifferenceLocation(segment=int(segment[at])) for at in extra[:MAX_LOCATIONS]],
    )
    known = isin_sorted(rows.keys, entries.keys)
    absent = np.flatnonzero(~known)
    yield FindingKind.NOT_INDEXED, len(absent), _row_locations(rows, absent)
    both = np.flatnonzero(known)
    at = floor_indices(entries.keys, rows.keys.take(both)) if len(both) else both
    elsewhere = ordinals[rows.file[both].astype(np.intp)] != entries.file[at].astype(np.int64)
    elsewhere |= rows.row[both] != entries.row[at]
    locations = [
        DifferenceLocation(int(rows.file[row]), int(rows.row[row]), segment=int(segment[entry]))
        for row, entry in zip(both[elsewhere][:MAX_LOCATIONS], at[elsewhere][:MAX_LOCATIONS], strict=True)
    ]
    yield FindingKind.WRONG_LOCATION, int(elsewhere.sum()), locations


def _has(changes: Changes, bit: int) -> Mask:
    found: Mask = (changes.operation >= ROW) & ((changes.operation & bit) > 0)
    return found


def _by_key(changes: Changes) -> Changes:
    return changes.take(changes.keys.argsort())


def _none() -> Indices:
    return np.empty(0, dtype=np.intp)


def _row_locations(rows: Changes, chosen: Indices) -> list[DifferenceLocation]:
    return [DifferenceLocation(int(rows.file[at]), int(rows.row[at])) for at in chosen[:MAX_LOCATIONS]]


def _event_locations(events: Changes, chosen: Indices) -> list[DifferenceLocation]:
    return [
        DifferenceLocation(event_file=int(events.file[at]), event_row=int(events.row[at]))
        for at in chosen[:MAX_LOCATIONS]
    ]


def no_keys(wide: bool) -> Keys:
    """Return no keys, of either width."""
    nothing = np.empty(0, dtype=np.uint64)
    return Keys(nothing, nothing if wide else None)
