"""Turns the facts about a key into the parts of its report: row, index entry, events and rejected events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.table.snapshots import Snapshot

from spark_job.changelog.shape import Operation
from spark_job.columns.json_values import row_as_json
from spark_job.commands.explain.describe_events import EventDescriber, decode_sequence, format_sequence
from spark_job.commands.explain.event_outcomes import explain_events
from spark_job.commands.explain.explained_table import ExplainedTable
from spark_job.commands.explain.find_row import FoundRow, find_writer
from spark_job.commands.explain.key_events import FoundEvents, RejectedEvent
from spark_job.commands.explain.key_facts import KeyFacts
from spark_job.commands.explain.report import (
    EventReport,
    KeyIndexReport,
    RejectedReport,
    RowReport,
    commit_time,
)
from spark_job.merge.collapse import argsort_events


def report_row(facts: KeyFacts) -> RowReport | None:
    """Return a description of the first live row of the key; None if there is none."""
    found_row, mirror = facts.found_row, facts.explained.mirror
    if found_row is None or mirror is None or not found_row.rows:
        return None
    location = found_row.rows[0]
    added_by = found_row.files.live[location.path].added_by
    writer, snapshot = find_writer(mirror.table.metadata.snapshots, added_by)
    return RowReport(
        file=location.path,
        position=location.position,
        written_by=writer,
        snapshot_id=added_by,
        committed_at=commit_time(snapshot),
        values=None if found_row.values is None else row_as_json(found_row.values),
        flagged=found_row.is_flagged if facts.explained.shape.keeps_deleted_rows else None,
    )


def report_index(explained: ExplainedTable, found_row: FoundRow) -> KeyIndexReport | None:
    """Return a description of the entry in the key index; None if the index cannot be read."""
    entry = found_row.entry
    if entry is None:
        return None
    entry_kind = "nothing" if entry.order is None else "tombstone" if entry.location is None else "row"
    schema, codec = explained.changelog.schema(), explained.shape.sequence
    return KeyIndexReport(
        says=entry_kind,
        file=entry.location.path if entry.location else None,
        position=entry.location.position if entry.location else None,
        check=found_row.check,
        sequence=decode_sequence(entry.order, codec, schema) if entry.order else None,
        commit=entry.order[-1] if entry.order else None,
    )


def report_events(facts: KeyFacts, found_events: FoundEvents) -> tuple[EventReport, ...]:
    """Return descriptions of the events in their order, oldest first."""
    explained, events = facts.explained, facts.events
    if not len(events):
        return ()
    snapshots: dict[int, Snapshot] = {
        snapshot.snapshot_id: snapshot for snapshot in explained.changelog.metadata.snapshots
    }
    order = argsort_events(events.batch).tolist()
    event_numbers = {event: event_number for event_number, event in enumerate(order, 1)}
    explanations = explain_events(events, facts.entry.order)
    sequences = [format_sequence(detail.sequence) for detail in found_events.details]
    describer = EventDescriber(events, event_numbers, sequences, flags=explained.shape.keeps_deleted_rows)
    reports: list[EventReport] = []
    for event in order:
        file, detail, explanation = (
            explained.files[int(events.batch.file[event])],
            found_events.details[event],
            explanations[event],
        )
        is_upsert = events.operation(event) is Operation.UPSERT
        reports.append(
            EventReport(
                number=event_numbers[event],
                operation=detail.operation,
                does="upsert" if is_upsert else "delete",
                sequence=detail.sequence,
                snapshot_id=file.snapshot_id,
                commit=file.sequence_number,
                committed_at=commit_time(snapshots.get(file.snapshot_id)),
                file=file.path,
                position=int(events.batch.row[event]),
                merged=event < events.merged_count,
                fate=explanation.outcome,
                will=explanation.expected_outcome,
                by=None if explanation.replaced_by is None else event_numbers[explanation.replaced_by],
                repeat_of=None if explanation.repeat_of is None else event_numbers[explanation.repeat_of],
                words=describer.describe(event, explanation),
                values=detail.values if is_upsert else None,
            )
        )
    return tuple(reports)


def report_rejected(explained: ExplainedTable, rejected: Sequence[RejectedEvent]) -> Iterator[RejectedReport]:
    """Yield descriptions of the rejected events of the key, in the order of the changelog."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in explained.changelog.metadata.snapshots}
    for event in sorted(rejected, key=lambda event: (event.file, event.row)):
        file, is_merged = explained.files[event.file], event.file < explained.merged_count
        yield RejectedReport(
            reason=event.reason,
            snapshot_id=file.snapshot_id,
            commit=file.sequence_number,
            committed_at=commit_time(snapshots.get(file.snapshot_id)),
            file=file.path,
            position=event.row,
            merged=is_merged,
            words=f"{'rejected' if is_merged else 'will be rejected'}: {event.reason.description}",
        )
