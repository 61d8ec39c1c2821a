"""Explains a key, top to bottom: changelog and cursor, events, index and row, what contradicts, what to know."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.table.snapshots import Snapshot

from icemirror.settings import TableSettings
from spark_job.changelog.changes import LEFT
from spark_job.changelog.shape import Operation
from spark_job.changelog.source_rows import read_rows
from spark_job.collapse import order_of_events
from spark_job.columns.json_values import row_as_json
from spark_job.explain.asked_key import AskedKey, parse_key
from spark_job.explain.contradictions import contradictions
from spark_job.explain.fates import judge
from spark_job.explain.find_row import RowFound, find_row, wanted_columns
from spark_job.explain.key_events import Found, Source, find_events
from spark_job.explain.known import Known, last_merged, notes_on
from spark_job.explain.mirrored_row import writer_of
from spark_job.explain.past import Past, look_back
from spark_job.explain.rejected_events import note_good_now, tell_rejected
from spark_job.explain.report import (
    EventReport,
    ExplainReport,
    FilesRead,
    IndexReport,
    RowReport,
    commit_time,
)
from spark_job.explain.words import Teller, sequence_of, sequence_text
from spark_job.iceberg.key_files import may_hold
from spark_job.index_upkeep.inspect_index import Unreadable
from spark_job.pipeline import Pipeline
from spark_job.unchanged.old_values import Story, complete_row
from spark_job.unchanged.soft_deletes import are_deletes
from spark_job.verify.row_digest import differing_columns

Progress = Callable[[str, int, int], None]
"""A step, how much of it is done, and how much there is (0: not known)."""


def explain_key(
    pipeline: Pipeline, table: TableSettings, text: str, progress: Progress = lambda *_: None
) -> ExplainReport:
    """All that is known of a key, given as JSON; raises `BadKey` where that is none."""
    began = time.perf_counter()
    progress("metadata", 0, 0)
    past = look_back(pipeline, table)
    schema = past.changelog.schema()
    key = parse_key(text, [schema.find_field(key_id) for key_id in past.shape.key_ids])
    wanted = _wanted_files(past, key)
    told = _find_events(past, table.name, key, wanted, progress)
    failed = {path for path, _ in told.unreadable}
    merged_failed = any(file.path in failed for file in past.files[: past.merged])
    whole = past.refused is None and not merged_failed
    known = _with_row(Known(past, told.events, whole), key, told, progress)
    found, mirror = known.found, past.mirror
    findings = tuple(contradictions(known.scene))
    notes = [*notes_on(known), *note_good_now(pipeline, table, past, told)]
    if told.cut:
        notes.append("values of some events are left out: together they are too large.")
    unreadable = (
        *(Unreadable(path=path, what=what) for path, what in told.unreadable),
        *(found.unreadable if found else ()),
    )
    return ExplainReport(
        table=table.name,
        changelog=str(table.changelog_id),
        key=key.as_json,
        state=known.state,
        equal=not findings,
        complete=past.refused is None and not unreadable,
        snapshot_id=mirror.head.snapshot_id if mirror and mirror.head else None,
        cursor=mirror.cursor if mirror else None,
        row=_row(known),
        index=_index(past, found) if found else None,
        events=_events(known, told),
        rejected=tuple(tell_rejected(past, told.rejected)),
        findings=findings,
        unreadable=unreadable,
        notes=tuple(notes),
        read=FilesRead(
            changelog_files=len(wanted),
            of_changelog_files=len(past.files),
            data_files=found.searched if found else 0,
            of_data_files=len(found.files.live) if found else 0,
        ),
        seconds=round(time.perf_counter() - began, 4),
    )


def _wanted_files(past: Past, key: AskedKey) -> list[int]:
    """The ordinals of the changelog files that may hold the key, by the head or by the snapshots that added them."""
    asked = [_files_with(past, key, past.shape.key_ids)]
    if past.shape.old_key_ids:
        asked.append(_files_with(past, key, past.shape.old_key_ids))
    return [
        at for at, file in enumerate(past.files) if any(answers.get(file.path, True) for answers in asked)
    ]


def _files_with(past: Past, key: AskedKey, key_ids: Sequence[int]) -> dict[str, bool]:
    """Which of the changelog's files may hold the key in these columns."""
    columns, table = wanted_columns(key, key_ids), past.changelog
    answers = may_hold(table, [table.metadata.current_snapshot_id], columns)
    if unlisted := {file.snapshot_id for file in past.files if file.path not in answers}:
        answers |= may_hold(table, sorted(unlisted), columns)
    return answers


def _find_events(past: Past, table: str, key: AskedKey, wanted: Sequence[int], progress: Progress) -> Found:
    schema, ids = past.row_schema
    source = Source(table, past.changelog.io, past.files, past.merged, past.shape, ids, schema, past.ahead)
    progress("changelog files", 0, len(wanted))
    done = 0

    def looked(more: int) -> None:
        nonlocal done
        done += more
        progress("changelog files", done, len(wanted))

    return find_events(source, key, wanted, looked)


def _with_row(known: Known, key: AskedKey, told: Found, progress: Progress) -> Known:
    """With where the row is, and how it differs from what the changelog tells."""
    past, mirror = known.past, known.past.mirror
    if mirror is None or mirror.head is None:
        return known
    done = 0

    def looked(more: int) -> None:
        nonlocal done
        done += more
        progress("data files", done, 0)

    last = last_merged(known.events)
    expected = last is not None and known.events.does(last) is Operation.UPSERT
    found = find_row(mirror, past.shape, key, past.mirror_key_ids, looked, expected=expected)
    writer = None
    differing: list[str] = []
    if found.rows:
        added_by = found.files.live[found.rows[0].path].added_by
        writer, _ = writer_of(mirror.table.metadata.snapshots, added_by)
        teller = _teller(known, last)
        if teller is not None and found.values is not None:
            differing = _differing(past, found.values, told, teller)
    return Known(past, known.events, known.whole, found, writer, tuple(differing))


def _teller(known: Known, last: int | None) -> int | None:
    """The merged event whose row should be there: where deletes keep their rows, mostly one before the last."""
    events, keeps = known.events, known.past.shape.keeps_deleted
    if last is None or events.does(last) is Operation.UPSERT or not keeps:
        return last if last is not None and events.does(last) is Operation.UPSERT else None
    order: list[int] = events.counted[order_of_events(events.changes.take(events.counted))].tolist()
    upserts = [at for at in order if events.does(at) is Operation.UPSERT]
    # The end of a key that was changed has the row of another one.
    return upserts[-1] if upserts else None if events.changes.are(LEFT)[order[0]] else order[0]


def _differing(past: Past, here: pa.Table, told: Found, last: int) -> list[str]:
    """The columns in which the row is not the one of an event."""
    schema, ids = past.row_schema
    changes, only = told.events.changes, np.array([last])
    there = read_rows(
        past.changelog.io,
        past.files,
        changes.file[only],
        changes.row[only],
        ids,
        schema,
        past.shape.defaults,
    )
    told_by = told.events.changes.take(told.events.counted)
    if past.shape.keeps_deleted and told.events.does(last) is Operation.UPSERT:
        told_by = told_by.take(~are_deletes(told_by))
    story = Story(past.changelog.io, past.files, past.shape, ids, told_by)
    there, unknown = complete_row(story, there, schema)
    return [name for name in differing_columns(here, there) if name not in unknown]


def _row(known: Known) -> RowReport | None:
    found, mirror = known.found, known.past.mirror
    if found is None or mirror is None or not found.rows:
        return None
    place = found.rows[0]
    added_by = found.files.live[place.path].added_by
    writer, snapshot = writer_of(mirror.table.metadata.snapshots, added_by)
    return RowReport(
        file=place.path,
        position=place.position,
        written_by=writer,
        snapshot_id=added_by,
        committed_at=commit_time(snapshot),
        values=None if found.values is None else row_as_json(found.values),
        flagged=found.flagged if known.past.shape.keeps_deleted else None,
    )


def _index(past: Past, found: RowFound) -> IndexReport | None:
    entry = found.entry
    if entry is None:
        return None
    says = "nothing" if entry.order is None else "tombstone" if entry.place is None else "row"
    schema, codec = past.changelog.schema(), past.shape.sequence
    return IndexReport(
        says=says,
        file=entry.place.path if entry.place else None,
        position=entry.place.position if entry.place else None,
        check=found.check,
        sequence=sequence_of(entry.order, codec, schema) if entry.order else None,
        commit=entry.order[-1] if entry.order else None,
    )


def _events(known: Known, told: Found) -> tuple[EventReport, ...]:
    """In the order of events, the oldest first."""
    past, events = known.past, known.events
    if not len(events):
        return ()
    snapshots: dict[int, Snapshot] = {one.snapshot_id: one for one in past.changelog.metadata.snapshots}
    places = order_of_events(events.changes).tolist()
    numbers = {at: number for number, at in enumerate(places, 1)}
    verdicts = judge(events, known.entry.order)
    sequences = [sequence_text(one.sequence) for one in told.details]
    teller = Teller(events, numbers, sequences, flags=past.shape.keeps_deleted)
    reports: list[EventReport] = []
    for at in places:
        file, detail, verdict = past.files[int(events.changes.file[at])], told.details[at], verdicts[at]
        upsert = events.does(at) is Operation.UPSERT
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
                fate=verdict.fate,
                will=verdict.will,
                by=None if verdict.by is None else numbers[verdict.by],
                repeat_of=None if verdict.repeat_of is None else numbers[verdict.repeat_of],
                words=teller.tell(at, verdict),
                values=detail.values if upsert else None,
            )
        )
    return tuple(reports)
