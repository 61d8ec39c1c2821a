"""Explains a key: its events in the changelog, its index entry, its row, and contradictions between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from icemirror.settings import TableSettings
from spark_job.changelog.event_batch import OLD_KEY_DELETE
from spark_job.changelog.read_rows import read_rows
from spark_job.changelog.rejected_rows import RejectedRows
from spark_job.changelog.shape import Operation
from spark_job.commands.explain.build_report import (
    report_events,
    report_index,
    report_rejected,
    report_row,
)
from spark_job.commands.explain.explained_table import ExplainedTable, load_explained_table
from spark_job.commands.explain.find_row import find_row, find_writer, key_column_values
from spark_job.commands.explain.key_events import EventFiles, FoundEvents, find_events
from spark_job.commands.explain.key_facts import KeyFacts, build_notes, find_contradictions, find_last_merged
from spark_job.commands.explain.prune_files import find_candidate_files
from spark_job.commands.explain.report import ExplainReport, FilesRead
from spark_job.commands.explain.requested_key import RequestedKey, parse_key
from spark_job.commands.verify.row_digest import differing_columns
from spark_job.merge.collapse import argsort_events
from spark_job.merge.unchanged_values import ReadableEvents, complete_row
from spark_job.pipeline import Pipeline
from spark_job.rejects.rejects_table import find_recorded, find_rejects

Progress = Callable[[str, int, int], None]
"""Called with a step, how much of it is done, and its total (0: unknown)."""


class _FileCounter:
    """Reports how many files of a step were read; called with how many more."""

    def __init__(self, step: str, total: int, progress: Progress) -> None:
        self._step, self._total, self._progress = step, total, progress
        self._read = 0

    def __call__(self, more: int) -> None:
        self._read += more
        self._progress(self._step, self._read, self._total)


def explain_key(
    pipeline: Pipeline, table: TableSettings, text: str, progress: Progress = lambda *_: None
) -> ExplainReport:
    """Return everything about a key, given as JSON; raises `BadKey` if it is not a key of the table."""
    began = time.perf_counter()
    progress("metadata", 0, 0)
    explained = load_explained_table(pipeline, table)
    schema = explained.changelog.schema()
    key = parse_key(text, [schema.find_field(key_id) for key_id in explained.shape.key_ids])
    ordinals = _candidate_files(explained, key)
    found_events = _find_events(explained, table.name, key, ordinals, progress)
    unreadable_paths = {file.path for file in found_events.unreadable}
    merged_file_unreadable = any(
        file.path in unreadable_paths for file in explained.files[: explained.merged_count]
    )
    is_complete = explained.problem is None and not merged_file_unreadable
    facts = _with_row(KeyFacts(explained, found_events.events, is_complete), key, found_events, progress)
    found_row, mirror = facts.found_row, explained.mirror
    findings = tuple(find_contradictions(facts))
    notes = [*build_notes(facts), *_note_mergeable_rejects(pipeline, table, explained, found_events)]
    if found_events.values_omitted:
        notes.append("values of some events are omitted: together they are too large.")
    unreadable = (
        *found_events.unreadable,
        *(found_row.unreadable if found_row else ()),
    )
    return ExplainReport(
        table=table.name,
        changelog=str(table.changelog_id),
        key=key.as_json,
        state=facts.state,
        equal=not findings,
        complete=explained.problem is None and not unreadable,
        snapshot_id=mirror.head.snapshot_id if mirror and mirror.head else None,
        cursor=mirror.cursor if mirror else None,
        row=report_row(facts),
        index=report_index(explained, found_row) if found_row else None,
        events=report_events(facts, found_events),
        rejected=tuple(report_rejected(explained, found_events.rejected)),
        findings=findings,
        unreadable=unreadable,
        notes=tuple(notes),
        read=FilesRead(
            changelog_files=len(ordinals),
            of_changelog_files=len(explained.files),
            data_files=found_row.searched_count if found_row else 0,
            of_data_files=len(found_row.files.live) if found_row else 0,
        ),
        seconds=round(time.perf_counter() - began, 4),
    )


def _candidate_files(explained: ExplainedTable, key: RequestedKey) -> list[int]:
    """Return the ordinals of the changelog files that may hold the key, in its new or its old columns."""
    candidates_by_key = [_candidates_by_path(explained, key, explained.shape.key_ids)]
    if explained.shape.old_key_ids:
        candidates_by_key.append(_candidates_by_path(explained, key, explained.shape.old_key_ids))
    return [
        ordinal
        for ordinal, file in enumerate(explained.files)
        if any(candidates.get(file.path, True) for candidates in candidates_by_key)
    ]


def _candidates_by_path(
    explained: ExplainedTable, key: RequestedKey, key_ids: Sequence[int]
) -> dict[str, bool]:
    """Return which changelog files may hold the key in these columns, by the head or the snapshots that added them."""
    columns, changelog = key_column_values(key, key_ids), explained.changelog
    candidates = find_candidate_files(changelog, [changelog.metadata.current_snapshot_id], columns)
    if unlisted := {file.snapshot_id for file in explained.files if file.path not in candidates}:
        candidates |= find_candidate_files(changelog, sorted(unlisted), columns)
    return candidates


def _find_events(
    explained: ExplainedTable, table: str, key: RequestedKey, ordinals: Sequence[int], progress: Progress
) -> FoundEvents:
    schema, field_map = explained.row_schema
    source = EventFiles(
        table,
        explained.changelog.io,
        explained.files,
        explained.merged_count,
        explained.shape,
        field_map,
        schema,
        explained.unmerged_truncation,
    )
    progress("changelog files", 0, len(ordinals))
    return find_events(source, key, ordinals, _FileCounter("changelog files", len(ordinals), progress))


def _with_row(facts: KeyFacts, key: RequestedKey, found_events: FoundEvents, progress: Progress) -> KeyFacts:
    """Return the facts with the row of the key, and the columns in which it differs from the changelog."""
    explained, mirror = facts.explained, facts.explained.mirror
    if mirror is None or mirror.head is None:
        return facts
    counter = _FileCounter("data files", 0, progress)
    last_event = find_last_merged(facts.events)
    row_expected = last_event is not None and facts.events.operation(last_event) is Operation.UPSERT
    found_row = find_row(
        mirror, explained.shape, key, explained.mirror_key_ids, counter, row_expected=row_expected
    )
    writer = None
    differing: list[str] = []
    if found_row.rows:
        added_by = found_row.files.live[found_row.rows[0].path].added_by
        writer, _ = find_writer(mirror.table.metadata.snapshots, added_by)
        source_event = _find_source_event(facts, last_event)
        if source_event is not None and found_row.values is not None:
            differing = _find_differing_columns(explained, found_row.values, found_events, source_event)
    return replace(facts, found_row=found_row, writer=writer, differing_columns=tuple(differing))


def _find_source_event(facts: KeyFacts, last_event: int | None) -> int | None:
    """Return the merged event whose values the row should have.

    With soft deletes that is usually an event before the last: a delete keeps the row as it was.
    """
    events, keeps_deleted_rows = facts.events, facts.explained.shape.keeps_deleted_rows
    if last_event is None or events.operation(last_event) is Operation.UPSERT or not keeps_deleted_rows:
        return (
            last_event
            if last_event is not None and events.operation(last_event) is Operation.UPSERT
            else None
        )
    order: list[int] = events.effective[argsort_events(events.batch.take(events.effective))].tolist()
    upserts = [event for event in order if events.operation(event) is Operation.UPSERT]
    # The event that moved a row to another key has the values of that other key.
    return upserts[-1] if upserts else None if events.batch.has_flag(OLD_KEY_DELETE)[order[0]] else order[0]


def _find_differing_columns(
    explained: ExplainedTable, row: pa.Table, found_events: FoundEvents, source_event: int
) -> list[str]:
    """Return the columns in which the row differs from the values of an event."""
    schema, field_map = explained.row_schema
    batch, source_index = found_events.events.batch, np.array([source_event])
    expected = read_rows(
        explained.changelog.io,
        explained.files,
        batch.file[source_index],
        batch.row[source_index],
        field_map,
        schema,
        explained.shape.defaults,
    )
    effective = found_events.events.batch.take(found_events.events.effective)
    if explained.shape.keeps_deleted_rows and found_events.events.operation(source_event) is Operation.UPSERT:
        effective = effective.take(~effective.is_delete)
    event_history = ReadableEvents(
        explained.changelog.io, explained.files, explained.shape, field_map, effective
    )
    expected, unknown_columns = complete_row(event_history, expected, schema)
    return [name for name in differing_columns(row, expected) if name not in unknown_columns]


def _note_mergeable_rejects(
    pipeline: Pipeline, table_settings: TableSettings, explained: ExplainedTable, found_events: FoundEvents
) -> Iterator[str]:
    """Yield notes about merged events that the rejects table has, although they can be merged now."""
    merged = found_events.events.batch.take(np.arange(found_events.events.merged_count))
    if table_settings.on_bad_row != "quarantine" or not len(merged):
        return
    rejects = find_rejects(pipeline.catalogs, table_settings)
    if rejects is None:
        return
    rows = RejectedRows(merged.file, merged.row, np.zeros(len(merged), dtype=np.uint8))
    is_recorded = find_recorded(*rejects, explained.files, rows)
    for ordinal in np.unique(merged.file[is_recorded]).tolist():
        count, file = int((merged.file[is_recorded] == ordinal).sum()), explained.files[ordinal]
        yield (
            f"{count:,} of its events were rejected when they arrived, and can be merged now: "
            f"`icemirror replay -t {table_settings.name} --from-snapshot {file.snapshot_id}` merges them, unless "
            f"that was done. File: {file.path}"
        )
