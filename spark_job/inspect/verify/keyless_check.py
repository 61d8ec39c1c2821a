"""Checks a mirror without a key: each row must occur as often as in the changelog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from spark_job.changelog.changes import Changes
from spark_job.changelog.read_rows import file_projection
from spark_job.columns.projection import Projection
from spark_job.index.keys import U64, Indices, Keys
from spark_job.inspect.verify.compare_rows import OF_HEAD, ROW, ComparedRange, DifferenceLocation
from spark_job.inspect.verify.deep_check import DeepWork, plan_deep
from spark_job.inspect.verify.subject import VerifySubject
from spark_job.inspect.verify.verify_report import MAX_LOCATIONS, FindingKind, VerifyFinding
from spark_job.merge.append_rows import require_inserts


def compare_counts(subject: VerifySubject) -> list[VerifyFinding]:
    """Return a finding if the mirror has more or fewer rows than the changelog has events."""
    if subject.history is None:
        return []
    events = sum(file.events for file in subject.history)
    rows = sum(file.rows - file.deleted for file in subject.head_files.values())
    if events == rows:
        return []
    return [
        VerifyFinding(
            kind=FindingKind.MISSING_ROW if events > rows else FindingKind.SURPLUS_ROW,
            count=abs(events - rows),
        )
    ]


@dataclass(frozen=True)
class KeylessWork(DeepWork):
    """Compares multisets of rows; sent to the tasks. The hash of a row takes the place of its key."""

    def _read_events(self, at: int) -> Changes:
        file = self.history[at]
        require_inserts(self.changelog_io, file, self.shape)
        projection = file_projection(file, self.field_map, self.shape.defaults)
        return _changes(self._digests(self.changelog_io, file.events, projection)[:, -1], at, 0)

    def _read_rows(self, at: int) -> Changes:
        file = self.mirrored[at]
        same = {target: target for target in self.field_map.values()}
        digests = self._digests(self.io, file.rows, Projection(file.path, same, file.absent))[:, -1]
        live = np.ones(len(digests), dtype=np.bool_)
        live[file.deleted if file.deleted is not None else slice(None)] = False
        return _changes(digests, at, ROW | OF_HEAD).take(live)

    def merge(self, read: Callable[[], Changes]) -> ComparedRange:
        """Compare a range of hashes."""
        changes = read()
        events, rows = (changes.take(mask) for mask in (changes.operation < ROW, changes.operation >= ROW))
        missing, surplus = _surplus(events, rows), _surplus(rows, events)
        locations = {
            FindingKind.MISSING_ROW: tuple(
                DifferenceLocation(event_file=int(events.file[at]), event_row=int(events.row[at]))
                for at in missing[:MAX_LOCATIONS]
            ),
            FindingKind.SURPLUS_ROW: tuple(
                DifferenceLocation(int(rows.file[at]), int(rows.row[at])) for at in surplus[:MAX_LOCATIONS]
            ),
        }
        counts = {FindingKind.MISSING_ROW: len(missing), FindingKind.SURPLUS_ROW: len(surplus)}
        counts = {kind: count for kind, count in counts.items() if count}
        return ComparedRange(
            counts, {kind: locations[kind] for kind in counts}, rows=len(rows), events=len(events)
        )


def _changes(digests: U64, file: int, operation: int) -> Changes:
    return Changes(
        Keys(np.zeros_like(digests), digests),
        np.full(len(digests), operation, dtype=np.uint8),
        np.zeros((len(digests), 1), dtype=np.uint64),
        np.full(len(digests), file, dtype=np.uint32),
        np.arange(len(digests), dtype=np.uint32),
    )


def _surplus(here: Changes, there: Changes) -> Indices:
    """Return what occurs more often here than there: the last n − m of n equal rows, if there are m."""
    order = here.keys.argsort()
    mine, theirs = _digests(here)[order], np.sort(_digests(there))
    nth = np.arange(len(mine)) - np.searchsorted(mine, mine, side="left")
    known = np.searchsorted(theirs, mine, side="right") - np.searchsorted(theirs, mine, side="left")
    return order[nth >= known]


def _digests(changes: Changes) -> U64:
    return changes.keys.lo if changes.keys.hi is None else changes.keys.hi


def plan_keyless(subject: VerifySubject) -> KeylessWork:
    """Plan a deep check of a table without a key, which has no index entries."""
    work = plan_deep(subject, with_index=False)
    return KeylessWork(**{field.name: getattr(work, field.name) for field in fields(work)})
