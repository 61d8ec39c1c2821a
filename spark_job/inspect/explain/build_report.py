"""Turns the facts about a key into the parts of its report: row, index entry, events and rejected events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pyiceberg.table.snapshots import Snapshot

from icemirror.settings import TableSettings
from spark_job.changelog.rejected_rows import RejectedRows
from spark_job.changelog.shape import Operation
from spark_job.columns.json_values import row_as_json
from spark_job.inspect.explain.describe_events import EventDescriber, decode_sequence, format_sequence
from spark_job.inspect.explain.event_outcomes import explain_events
from spark_job.inspect.explain.find_row import FoundRow, find_writer
from spark_job.inspect.explain.key_events import FoundEvents, RejectedEvent
from spark_job.inspect.explain.key_facts import KeyFacts
from spark_job.inspect.explain.merge_history import MergeHistory
from spark_job.inspect.explain.report import (
    EventReport,
    KeyIndexReport,
    RejectedReport,
    RowReport,
    commit_time,
)
from spark_job.merge.collapse import order_of_events
from spark_job.pipeline import Pipeline
from spark_job.rejects.rejects_table import find_recorded, find_rejects


def report_row(facts: KeyFacts) -> RowReport | None:
    """Describe the first live row of the key; None if there is none."""
    found, mirror = facts.found, facts.history.mirror
    if found is None or mirror is None or not found.rows:
        return None
    location = found.rows[0]
    added_by = found.files.live[location.path].added_by
    writer, snapshot = find_writer(mirror.table.metadata.snapshots, added_by)
    return RowReport(
        file=location.path,
        position=location.position,
        written_by=writer,
        snapshot_id=added_by,
        committed_at=commit_time(snapshot),
        values=None if found.values is None else row_as_json(found.values),
        flagged=found.flagged if facts.history.shape.keeps_deleted_rows else None,
    )


def report_index(history: MergeHistory, found: FoundRow) -> KeyIndexReport | None:
    """Describe the entry of the key index; None if the index cannot be read."""
    entry = found.entry
    if entry is None:
        return None
    says = "nothing" if entry.order is None else "tombstone" if entry.location is None else "row"
    schema, codec = history.changelog.schema(), history.shape.sequence
    return KeyIndexReport(
        says=says,
        file=entry.location.path if entry.location else None,
        position=entry.location.position if entry.location else None,
        check=found.check,
        sequence=decode_sequence(entry.order, codec, schema) if entry.order else None,
        commit=entry.order[-1] if entry.order else None,
    )


def report_events(facts: KeyFacts, found: FoundEvents) -> tuple[EventReport, ...]:
    """Describe the events in their order, oldest first."""
    history, events = facts.history, facts.events
    if not len(events):
        return ()
    snapshots: dict[int, Snapshot] = {
        snapshot.snapshot_id: snapshot for snapshot in history.changelog.metadata.snapshots
    }
    order = order_of_events(events.changes).tolist()
    numbers = {at: number for number, at in enumerate(order, 1)}
    explanations = explain_events(events, facts.entry.order)
    sequences = [format_sequence(detail.sequence) for detail in found.details]
    describer = EventDescriber(events, numbers, sequences, flags=history.shape.keeps_deleted_rows)
    reports: list[EventReport] = []
    for at in order:
        file, detail, explanation = (
            history.files[int(events.changes.file[at])],
            found.details[at],
            explanations[at],
        )
        upsert = events.operation(at) is Operation.UPSERT
        reports.append(
            EventReport(
                number=numbers[at],
                operation=detail.operation,
                does="upsert" if upsert else "delete",
                sequence=detail.sequence,
                snapshot_id=file.snapshot_id,
                commit=file.sequence_number,
                committed_at=commit_time(snapshots.get(file.snapshot_id)),
                file=file.path,
                position=int(events.changes.row[at]),
                merged=at < events.merged,
                fate=explanation.outcome,
                will=explanation.expected_outcome,
                by=None if explanation.replaced_by is None else numbers[explanation.replaced_by],
                repeat_of=None if explanation.repeat_of is None else numbers[explanation.repeat_of],
                words=describer.describe(at, explanation),
                values=detail.values if upsert else None,
            )
        )
    return tuple(reports)


def report_rejected(history: MergeHistory, rejected: Sequence[RejectedEvent]) -> Iterator[RejectedReport]:
    """Describe the rejected events of the key in the order of the changelog."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in history.changelog.metadata.snapshots}
    for event in sorted(rejected, key=lambda event: (event.file, event.row)):
        file, merged = history.files[event.file], event.file < history.merged
        yield RejectedReport(
            reason=event.reason,
            snapshot_id=file.snapshot_id,
            commit=file.sequence_number,
            committed_at=commit_time(snapshots.get(file.snapshot_id)),
            file=file.path,
            position=event.row,
            merged=merged,
            words=f"{'rejected' if merged else 'will be rejected'}: {event.reason.description}",
        )


def note_mergeable_rejects(
    pipeline: Pipeline, table: TableSettings, history: MergeHistory, found: FoundEvents
) -> Iterator[str]:
    """Note merged events that the rejects table has, although they can be merged now."""
    merged = found.events.changes.take(np.arange(found.events.merged))
    if table.on_bad_row != "quarantine" or not len(merged):
        return
    rejects = find_rejects(pipeline.catalogs, table)
    if rejects is None:
        return
    rows = RejectedRows(merged.file, merged.row, np.zeros(len(merged), dtype=np.uint8))
    known = find_recorded(*rejects, history.files, rows)
    for ordinal in np.unique(merged.file[known]).tolist():
        count, file = int((merged.file[known] == ordinal).sum()), history.files[ordinal]
        yield (
            f"{count:,} of its events were rejected when they arrived, and can be merged now: "
            f"`icemirror replay -t {table.name} --from-snapshot {file.snapshot_id}` merges them, unless that was "
            f"done. File: {file.path}"
        )
