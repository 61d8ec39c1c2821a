"""Checks a mirror without a key: each row must occur as often as in the changelog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.read_rows import file_projection
from spark_job.changelog.require_inserts import require_inserts
from spark_job.columns.arrays import U64, Indices
from spark_job.columns.projection import Projection
from spark_job.commands.verify.compare_rows import IN_HEAD, ROW, ComparedRange, DifferenceLocation
from spark_job.commands.verify.deep_check import DeepWork, plan_deep
from spark_job.commands.verify.subject import VerifySubject
from spark_job.commands.verify.verify_report import MAX_LOCATIONS, FindingKind, VerifyFinding
from spark_job.index.keys import Keys


def compare_counts(subject: VerifySubject) -> list[VerifyFinding]:
    """Return a finding if the mirror has more or fewer rows than the changelog has events."""
    if subject.history is None:
        return []
    events = sum(file.events for file in subject.history)
    rows = sum(file.live_rows for file in subject.head_files.values())
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
    """Compares how often each row occurs. The digest of a row takes the place of its key."""

    def _read_events(self, ordinal: int) -> EventBatch:
        file = self.history[ordinal]
        require_inserts(self.changelog_io, file, self.shape)
        projection = file_projection(file, self.field_map, self.shape.defaults)
        return _to_batch(self._digest_file(self.changelog_io, file.events, projection)[:, -1], ordinal, 0)

    def _read_rows(self, ordinal: int) -> EventBatch:
        file = self.mirror_files[ordinal]
        identity_map = {mirror_id: mirror_id for mirror_id in self.field_map.values()}
        digests = self._digest_file(
            self.io, file.rows, Projection(file.path, identity_map, file.missing_values)
        )[:, -1]
        is_live = np.ones(len(digests), dtype=np.bool_)
        is_live[file.deleted_in_head if file.deleted_in_head is not None else slice(None)] = False
        return _to_batch(digests, ordinal, ROW | IN_HEAD).take(is_live)

    def run_shard(self, read: Callable[[], EventBatch]) -> ComparedRange:
        """Return the differences in a range of digests."""
        compared = read()
        events, rows = (compared.take(mask) for mask in (compared.operation < ROW, compared.operation >= ROW))
        missing, surplus = _find_surplus(events, rows), _find_surplus(rows, events)
        locations = {
            FindingKind.MISSING_ROW: tuple(
                DifferenceLocation(event_file=int(events.file[index]), event_row=int(events.row[index]))
                for index in missing[:MAX_LOCATIONS]
            ),
            FindingKind.SURPLUS_ROW: tuple(
                DifferenceLocation(int(rows.file[index]), int(rows.row[index]))
                for index in surplus[:MAX_LOCATIONS]
            ),
        }
        counts = {FindingKind.MISSING_ROW: len(missing), FindingKind.SURPLUS_ROW: len(surplus)}
        counts = {kind: count for kind, count in counts.items() if count}
        return ComparedRange(
            counts, {kind: locations[kind] for kind in counts}, rows=len(rows), events=len(events)
        )


def _to_batch(digests: U64, ordinal: int, operation: int) -> EventBatch:
    return EventBatch(
        Keys(np.zeros_like(digests), digests),
        np.full(len(digests), operation, dtype=np.uint8),
        np.zeros((len(digests), 1), dtype=np.uint64),
        np.full(len(digests), ordinal, dtype=np.uint32),
        np.arange(len(digests), dtype=np.uint32),
    )


def _find_surplus(left: EventBatch, right: EventBatch) -> Indices:
    """Return what occurs more often on the left: the last n − m of n equal rows, if the right has m."""
    order = left.keys.argsort()
    left_digests, right_digests = left.keys.leading[order], np.sort(right.keys.leading)
    occurrence = np.arange(len(left_digests)) - np.searchsorted(left_digests, left_digests, side="left")
    right_count = np.searchsorted(right_digests, left_digests, side="right") - np.searchsorted(
        right_digests, left_digests, side="left"
    )
    return order[occurrence >= right_count]


def plan_keyless(subject: VerifySubject) -> KeylessWork:
    """Return the work of a deep check of a table without a key, which has no index entries."""
    return plan_deep(subject, with_index=False, work_type=KeylessWork)
