"""Compares a range of keys: events of the changelog with rows, entries of the index with rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spark_job.changelog.event_batch import OLD_KEY_DELETE, EventBatch
from spark_job.changelog.shape import Operation
from spark_job.columns.arrays import Indices, Mask
from spark_job.commands.verify.row_digest import UNCHANGED
from spark_job.commands.verify.verify_report import MAX_LOCATIONS, FindingKind
from spark_job.index.keys import Keys, floor_indices, isin_sorted
from spark_job.merge.value_search import lowest_reachable

# Events, index entries and rows are compared in one `EventBatch`, because that is what is shuffled:
#
#               an event           an index entry         a row of the mirror
#   operation   0 │ 1              ENTRY │ TOMBSTONE_…    ROW + IN_HEAD + IN_INDEX
#   file, row   in the changelog   where it points        in the mirror
#   sequence    order │ digests    0 … │ segment number   0 … │ digests
#
# The digests are hashes of the row's values: the last `digest_count` columns.
ENTRY = 2
TOMBSTONE_ENTRY = 3
ROW = 4
IN_HEAD = 1  # the row is in the head
IN_INDEX = 2  # the row is in the snapshot of the index


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
    compared: EventBatch, digest_count: int = 1, *, keeps_deleted_rows: bool = False
) -> Iterator[tuple[FindingKind, int, list[DifferenceLocation]]]:
    """Yield the differences between the row that the latest event of each key gives and the row of the head.

    With soft deletes (`keeps_deleted_rows`) the first digest is the flag.
    """
    events = latest_events(
        compared.take(compared.operation < ENTRY), digest_count, keeps_deleted_rows=keeps_deleted_rows
    )
    rows = _sort_by_key(compared.take(_is_row_in(compared, IN_HEAD)))
    duplicates = np.flatnonzero(rows.keys.same_as_next()) + 1
    yield FindingKind.DUPLICATE_KEY, len(duplicates), _row_locations(rows, duplicates)
    upserts = events.take(events.operation == Operation.UPSERT)
    missing = np.flatnonzero(~isin_sorted(upserts.keys, rows.keys))
    yield FindingKind.MISSING_ROW, len(missing), _event_locations(upserts, missing)
    expected = events if keeps_deleted_rows else upserts
    missing_soft_deletes = np.flatnonzero(
        (expected.operation != Operation.UPSERT) & ~isin_sorted(expected.keys, rows.keys)
    )
    yield (
        FindingKind.SOFT_DELETE_MISSING,
        len(missing_soft_deletes),
        _event_locations(expected, missing_soft_deletes),
    )
    has_event, has_expected_row = isin_sorted(rows.keys, events.keys), isin_sorted(rows.keys, expected.keys)
    common_rows = np.flatnonzero(has_expected_row)
    event_of_row = (
        floor_indices(expected.keys, rows.keys.take(common_rows)) if len(common_rows) else common_rows
    )
    if keeps_deleted_rows:  # a row without the flag is live
        is_unflagged = (expected.operation[event_of_row] != Operation.UPSERT) & (
            rows.sequence[common_rows, -digest_count] == 0
        )
        has_expected_row[common_rows[is_unflagged]] = False
        common_rows, event_of_row = common_rows[~is_unflagged], event_of_row[~is_unflagged]
    foreign, should_be_deleted = np.flatnonzero(~has_event), np.flatnonzero(has_event & ~has_expected_row)
    yield FindingKind.FOREIGN_ROW, len(foreign), _row_locations(rows, foreign)
    yield FindingKind.DELETED_ROW, len(should_be_deleted), _row_locations(rows, should_be_deleted)
    expected_digests = expected.sequence[event_of_row, -digest_count:]
    differs = (
        (rows.sequence[common_rows, -digest_count:] != expected_digests) & (expected_digests != UNCHANGED)
    ).any(axis=1)
    locations = [
        DifferenceLocation(
            int(rows.file[row]), int(rows.row[row]), int(expected.file[event]), int(expected.row[event])
        )
        for row, event in zip(
            common_rows[differs][:MAX_LOCATIONS], event_of_row[differs][:MAX_LOCATIONS], strict=True
        )
    ]
    yield FindingKind.DIFFERENT_ROW, int(differs.sum()), locations


def latest_events(
    events: EventBatch, digest_count: int = 1, *, keeps_deleted_rows: bool = False
) -> EventBatch:
    """Return for each key the last event by (sequence, position), ascending by key.

    Values marked as unchanged are taken from earlier events, if these have them. A soft delete keeps all values,
    unless it is the first event of its key; it is reported at the position of the event whose row it keeps.
    """
    order_parts = [
        events.sequence[:, part] for part in reversed(range(events.sequence.shape[1] - digest_count))
    ]
    key_parts = [events.keys.lo] if events.keys.hi is None else [events.keys.lo, events.keys.hi]
    order = np.lexsort([events.positions, *order_parts, *key_parts])
    if not len(order):
        return events
    ordered = events.take(order)
    is_last = np.append(~ordered.keys.same_as_next(), True)
    if keeps_deleted_rows:
        return _apply_soft_deletes(ordered, is_last, digest_count).take(is_last)
    return (ordered if digest_count == 1 else _carry_values(ordered, is_last, digest_count)).take(is_last)


def _apply_soft_deletes(events: EventBatch, is_last: Mask, digest_count: int) -> EventBatch:
    """Return the events, with the flag and the values of the row before them in deletes; sorted by key and order."""
    deletes, position = events.operation == Operation.DELETE, np.arange(len(events))
    is_first = np.append(True, is_last[:-1])
    # The event that moved a row to another key has the values of that other key.
    keeps_values = deletes & ~(is_first & ~events.has_flag(OLD_KEY_DELETE))
    sequence = events.sequence.copy()
    sequence[:, -digest_count] = deletes
    sequence[keeps_values, 1 - digest_count :] = UNCHANGED
    upserts = np.zeros_like(events.operation)
    carried = _carry_values(replace(events, sequence=sequence, operation=upserts), is_last, digest_count)
    first_of_key = np.maximum.accumulate(np.where(is_first, position, 0))
    kept_from = np.maximum(np.maximum.accumulate(np.where(keeps_values, 0, position)), first_of_key)
    return replace(
        carried,
        operation=events.operation,
        file=events.file[kept_from],
        row=events.row[kept_from],
        key_change_flags=events.key_change_flags,
    )


def _carry_values(events: EventBatch, is_last: Mask, digest_count: int) -> EventBatch:
    """Return the events, with values carried over those that mark them as unchanged; sorted by key and order."""
    position = np.arange(len(events))
    first_of_key = np.maximum.accumulate(np.where(np.append(True, is_last[:-1]), position, 0))
    lowest = lowest_reachable(events, first_of_key)
    sequence = events.sequence.copy()
    for column in range(sequence.shape[1] - digest_count, sequence.shape[1]):
        digests = sequence[:, column]
        last_known = np.maximum.accumulate(np.where(digests != UNCHANGED, position, 0))
        sequence[:, column] = np.where(last_known >= lowest, digests[last_known], UNCHANGED)
    return replace(events, sequence=sequence)


def compare_with_index(
    compared: EventBatch, ordinals: NDArray[np.int64], runs: NDArray[np.int64]
) -> Iterator[tuple[FindingKind, int, list[DifferenceLocation]]]:
    """Yield the differences between the newest entry of each key and the rows of the index's snapshot.

    `ordinals`: the ordinal of each file in the index. `runs`: the run of each segment.
    """
    entries = compared.take((compared.operation == ENTRY) | (compared.operation == TOMBSTONE_ENTRY))
    segment = entries.sequence[:, -1]
    key_parts = [entries.keys.lo] if entries.keys.hi is None else [entries.keys.lo, entries.keys.hi]
    order = np.lexsort([segment, *key_parts])
    entries, segment = entries.take(order), segment[order].astype(np.intp)
    same_as_next = entries.keys.same_as_next()
    twice = (
        np.flatnonzero(same_as_next & (runs[segment[1:]] == runs[segment[:-1]])) + 1
        if len(segment)
        else _no_indices()
    )
    yield (
        FindingKind.INDEXED_TWICE,
        len(twice),
        [DifferenceLocation(segment=int(segment[entry])) for entry in twice[:MAX_LOCATIONS]],
    )
    is_newest = np.concatenate([[True], ~same_as_next]) if len(entries) else np.empty(0, dtype=np.bool_)
    is_live = is_newest & (entries.operation == ENTRY)
    entries, segment = entries.take(is_live), segment[is_live]
    rows = _sort_by_key(compared.take(_is_row_in(compared, IN_INDEX)))
    without_row = np.flatnonzero(~isin_sorted(entries.keys, rows.keys))
    yield (
        FindingKind.NO_SUCH_ROW,
        len(without_row),
        [DifferenceLocation(segment=int(segment[entry])) for entry in without_row[:MAX_LOCATIONS]],
    )
    is_indexed = isin_sorted(rows.keys, entries.keys)
    not_indexed = np.flatnonzero(~is_indexed)
    yield FindingKind.NOT_INDEXED, len(not_indexed), _row_locations(rows, not_indexed)
    indexed_rows = np.flatnonzero(is_indexed)
    entry_of_row = (
        floor_indices(entries.keys, rows.keys.take(indexed_rows)) if len(indexed_rows) else indexed_rows
    )
    elsewhere = ordinals[rows.file[indexed_rows].astype(np.intp)] != entries.file[entry_of_row].astype(
        np.int64
    )
    elsewhere |= rows.row[indexed_rows] != entries.row[entry_of_row]
    locations = [
        DifferenceLocation(int(rows.file[row]), int(rows.row[row]), segment=int(segment[entry]))
        for row, entry in zip(
            indexed_rows[elsewhere][:MAX_LOCATIONS], entry_of_row[elsewhere][:MAX_LOCATIONS], strict=True
        )
    ]
    yield FindingKind.WRONG_LOCATION, int(elsewhere.sum()), locations


def _is_row_in(compared: EventBatch, bit: int) -> Mask:
    mask: Mask = (compared.operation >= ROW) & ((compared.operation & bit) > 0)
    return mask


def _sort_by_key(rows: EventBatch) -> EventBatch:
    return rows.take(rows.keys.argsort())


def _no_indices() -> Indices:
    return np.empty(0, dtype=np.intp)


def _row_locations(rows: EventBatch, indices: Indices) -> list[DifferenceLocation]:
    return [DifferenceLocation(int(rows.file[row]), int(rows.row[row])) for row in indices[:MAX_LOCATIONS]]


def _event_locations(events: EventBatch, indices: Indices) -> list[DifferenceLocation]:
    return [
        DifferenceLocation(event_file=int(events.file[event]), event_row=int(events.row[event]))
        for event in indices[:MAX_LOCATIONS]
    ]


def no_keys(is_wide: bool) -> Keys:
    """Return no keys, of either width."""
    empty = np.empty(0, dtype=np.uint64)
    return Keys(empty, empty if is_wide else None)
