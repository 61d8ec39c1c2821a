"""Explains a key: its events in the changelog, its index entry, its row, and contradictions between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from icemirror.settings import TableSettings
from spark_job.changelog.changes import OLD_KEY
from spark_job.changelog.read_rows import read_rows
from spark_job.changelog.shape import Operation
from spark_job.inspect.explain.build_report import (
    note_mergeable_rejects,
    report_events,
    report_index,
    report_rejected,
    report_row,
)
from spark_job.inspect.explain.find_row import find_row, find_writer, key_column_values
from spark_job.inspect.explain.key_events import EventFiles, FoundEvents, find_events
from spark_job.inspect.explain.key_facts import KeyFacts, find_contradictions, last_merged, notes_on
from spark_job.inspect.explain.merge_history import MergeHistory, load_history
from spark_job.inspect.explain.prune_files import find_candidate_files
from spark_job.inspect.explain.report import ExplainReport, FilesRead
from spark_job.inspect.explain.requested_key import RequestedKey, parse_key
from spark_job.inspect.inspect_index import UnreadableFile
from spark_job.inspect.verify.row_digest import differing_columns
from spark_job.merge.collapse import order_of_events
from spark_job.merge.soft_deletes import are_deletes
from spark_job.merge.unchanged_values import EventHistory, complete_row
from spark_job.pipeline import Pipeline

Progress = Callable[[str, int, int], None]
"""Called with a step, how much of it is done, and its total (0: unknown)."""


def explain_key(
    pipeline: Pipeline, table: TableSettings, text: str, progress: Progress = lambda *_: None
) -> ExplainReport:
    """Report everything about a key, given as JSON; raises `BadKey` if it is not a key of the table."""
    began = time.perf_counter()
    progress("metadata", 0, 0)
    history = load_history(pipeline, table)
    schema = history.changelog.schema()
    key = parse_key(text, [schema.find_field(key_id) for key_id in history.shape.key_ids])
    wanted = _candidate_files(history, key)
    found = _find_events(history, table.name, key, wanted, progress)
    failed = {path for path, _ in found.unreadable}
    merged_failed = any(file.path in failed for file in history.files[: history.merged])
    complete = history.refused is None and not merged_failed
    facts = _with_row(KeyFacts(history, found.events, complete), key, found, progress)
    row, mirror = facts.found, history.mirror
    findings = tuple(find_contradictions(facts))
    notes = [*notes_on(facts), *note_mergeable_rejects(pipeline, table, history, found)]
    if found.values_omitted:
        notes.append("values of some events are omitted: together they are too large.")
    unreadable = (
        *(UnreadableFile(path=path, what=what) for path, what in found.unreadable),
        *(row.unreadable if row else ()),
    )
    return ExplainReport(
        table=table.name,
        changelog=str(table.changelog_id),
        key=key.as_json,
        state=facts.state,
        equal=not findings,
        complete=history.refused is None and not unreadable,
        snapshot_id=mirror.head.snapshot_id if mirror and mirror.head else None,
        cursor=mirror.cursor if mirror else None,
        row=report_row(facts),
        index=report_index(history, row) if row else None,
        events=report_events(facts, found),
        rejected=tuple(report_rejected(history, found.rejected)),
        findings=findings,
        unreadable=unreadable,
        notes=tuple(notes),
        read=FilesRead(
            changelog_files=len(wanted),
            of_changelog_files=len(history.files),
            data_files=row.searched if row else 0,
            of_data_files=len(row.files.live) if row else 0,
        ),
        seconds=round(time.perf_counter() - began, 4),
    )


def _candidate_files(history: MergeHistory, key: RequestedKey) -> list[int]:
    """Return the ordinals of the changelog files that may hold the key, in its new or its old columns."""
    candidates_by_key = [_candidates_by_path(history, key, history.shape.key_ids)]
    if history.shape.old_key_ids:
        candidates_by_key.append(_candidates_by_path(history, key, history.shape.old_key_ids))
    return [
        at
        for at, file in enumerate(history.files)
        if any(candidates.get(file.path, True) for candidates in candidates_by_key)
    ]


def _candidates_by_path(history: MergeHistory, key: RequestedKey, key_ids: Sequence[int]) -> dict[str, bool]:
    """Return which changelog files may hold the key in these columns, by the head or the snapshots that added them."""
    columns, table = key_column_values(key, key_ids), history.changelog
    candidates = find_candidate_files(table, [table.metadata.current_snapshot_id], columns)
    if unlisted := {file.snapshot_id for file in history.files if file.path not in candidates}:
        candidates |= find_candidate_files(table, sorted(unlisted), columns)
    return candidates


def _find_events(
    history: MergeHistory, table: str, key: RequestedKey, wanted: Sequence[int], progress: Progress
) -> FoundEvents:
    schema, ids = history.row_schema
    source = EventFiles(
        table, history.changelog.io, history.files, history.merged, history.shape, ids, schema, history.ahead
    )
    progress("changelog files", 0, len(wanted))
    done = 0

    def files_read(more: int) -> None:
        nonlocal done
        done += more
        progress("changelog files", done, len(wanted))

    return find_events(source, key, wanted, files_read)


def _with_row(facts: KeyFacts, key: RequestedKey, found: FoundEvents, progress: Progress) -> KeyFacts:
    """Add the row of the key, and the columns in which it differs from the changelog."""
    history, mirror = facts.history, facts.history.mirror
    if mirror is None or mirror.head is None:
        return facts
    done = 0

    def files_read(more: int) -> None:
        nonlocal done
        done += more
        progress("data files", done, 0)

    last = last_merged(facts.events)
    expected = last is not None and facts.events.operation(last) is Operation.UPSERT
    row = find_row(mirror, history.shape, key, history.mirror_key_ids, files_read, expected=expected)
    writer = None
    differing: list[str] = []
    if row.rows:
        added_by = row.files.live[row.rows[0].path].added_by
        writer, _ = find_writer(mirror.table.metadata.snapshots, added_by)
        expected_from = _event_of_row(facts, last)
        if expected_from is not None and row.values is not None:
            differing = _differing(history, row.values, found, expected_from)
    return replace(facts, found=row, writer=writer, differing=tuple(differing))


def _event_of_row(facts: KeyFacts, last: int | None) -> int | None:
    """Return the merged event whose values the row should have.

    With soft deletes that is usually an event before the last: a delete keeps the row as it was.
    """
    events, keeps = facts.events, facts.history.shape.keeps_deleted_rows
    if last is None or events.operation(last) is Operation.UPSERT or not keeps:
        return last if last is not None and events.operation(last) is Operation.UPSERT else None
    order: list[int] = events.mergeable[order_of_events(events.changes.take(events.mergeable))].tolist()
    upserts = [at for at in order if events.operation(at) is Operation.UPSERT]
    # The event that moved a row to another key has the values of that other key.
    return upserts[-1] if upserts else None if events.changes.has_move(OLD_KEY)[order[0]] else order[0]


def _differing(history: MergeHistory, here: pa.Table, found: FoundEvents, expected_from: int) -> list[str]:
    """Return the columns in which the row differs from the values of an event."""
    schema, ids = history.row_schema
    changes, only = found.events.changes, np.array([expected_from])
    expected = read_rows(
        history.changelog.io,
        history.files,
        changes.file[only],
        changes.row[only],
        ids,
        schema,
        history.shape.defaults,
    )
    mergeable = found.events.changes.take(found.events.mergeable)
    if history.shape.keeps_deleted_rows and found.events.operation(expected_from) is Operation.UPSERT:
        mergeable = mergeable.take(~are_deletes(mergeable))
    earlier = EventHistory(history.changelog.io, history.files, history.shape, ids, mergeable)
    expected, unknown = complete_row(earlier, expected, schema)
    return [name for name in differing_columns(here, expected) if name not in unknown]
