"""Checks of a mirror without a key: how many rows it has, and how often each, beside how often it was told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from spark_job.append_rows import require_inserts
from spark_job.changelog.changes import Changes
from spark_job.changelog.source_rows import projection_of
from spark_job.columns.projection import Projection
from spark_job.key_index.keys import U64, Indices, Keys
from spark_job.verify.compare_rows import OF_HEAD, ROW, Compared, Spot
from spark_job.verify.deep import DeepWork, plan_deep
from spark_job.verify.findings import MOST_PLACES, Finding, Kind
from spark_job.verify.subject import Subject


def compare_counts(subject: Subject) -> list[Finding]:
    """A finding where there are more rows, or fewer, than the changelog tells of."""
    if subject.history is None:
        return []
    told = sum(file.events for file in subject.history)
    there = sum(file.rows - file.deleted for file in subject.head_files.values())
    if told == there:
        return []
    return [Finding(kind=Kind.MISSING_ROW if told > there else Kind.SURPLUS_ROW, count=abs(told - there))]


@dataclass(frozen=True)
class MultisetWork(DeepWork):
    """Compares; sent to the tasks. A row's digest stands for its key: shards are ranges of digests."""

    def _read_events(self, at: int) -> Changes:
        file = self.history[at]
        require_inserts(self.changelog_io, file, self.shape)
        by = projection_of(file, self.field_map, self.shape.defaults)
        return _changes(self._digests(self.changelog_io, file.events, by)[:, -1], at, 0)

    def _read_rows(self, at: int) -> Changes:
        file = self.mirrored[at]
        same = {target: target for target in self.field_map.values()}
        digests = self._digests(self.io, file.rows, Projection(file.path, same, file.absent))[:, -1]
        live = np.ones(len(digests), dtype=np.bool_)
        live[file.dead if file.dead is not None else slice(None)] = False
        return _changes(digests, at, ROW | OF_HEAD).take(live)

    def merge(self, read: Callable[[], Changes]) -> Compared:
        """Compares a range of digests."""
        changes = read()
        events, rows = (changes.take(mask) for mask in (changes.operation < ROW, changes.operation >= ROW))
        missing, surplus = _beyond(events, rows), _beyond(rows, events)
        spots = {
            Kind.MISSING_ROW: tuple(
                Spot(event_file=int(events.file[at]), event_row=int(events.row[at]))
                for at in missing[:MOST_PLACES]
            ),
            Kind.SURPLUS_ROW: tuple(
                Spot(int(rows.file[at]), int(rows.row[at])) for at in surplus[:MOST_PLACES]
            ),
        }
        counts = {Kind.MISSING_ROW: len(missing), Kind.SURPLUS_ROW: len(surplus)}
        counts = {kind: count for kind, count in counts.items() if count}
        return Compared(counts, {kind: spots[kind] for kind in counts}, rows=len(rows), events=len(events))


def _changes(digests: U64, file: int, operation: int) -> Changes:
    return Changes(
        Keys(np.zeros_like(digests), digests),
        np.full(len(digests), operation, dtype=np.uint8),
        np.zeros((len(digests), 1), dtype=np.uint64),
        np.full(len(digests), file, dtype=np.uint32),
        np.arange(len(digests), dtype=np.uint32),
    )


def _beyond(here: Changes, there: Changes) -> Indices:
    """Places of what is here more often than there: of n and m equal ones, the last n − m."""
    order = here.keys.argsort()
    mine, theirs = _digests(here)[order], np.sort(_digests(there))
    nth = np.arange(len(mine)) - np.searchsorted(mine, mine, side="left")
    known = np.searchsorted(theirs, mine, side="right") - np.searchsorted(theirs, mine, side="left")
    return order[nth >= known]


def _digests(changes: Changes) -> U64:
    return changes.keys.lo if changes.keys.hi is None else changes.keys.hi


def plan_multiset(subject: Subject) -> MultisetWork:
    """The work of a deep check of a table without a key, which has no entries to compare."""
    work = plan_deep(subject, with_index=False)
    return MultisetWork(**{field.name: getattr(work, field.name) for field in fields(work)})
