"""Verification, top to bottom: metadata, segments, then a sample of rows or all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from icemirror.errors import Corrupt, Invalid, filled
from icemirror.settings import TableSettings
from spark_job.index_upkeep.inspect_index import unreadable_segments
from spark_job.key_index.damage import DamagedSegment
from spark_job.pipeline import Pipeline
from spark_job.runtime.little import run_here_or
from spark_job.verify.deep import fold, plan_deep
from spark_job.verify.findings import MOST_PLACES, Checked, Finding, Kind, VerifyReport, finding
from spark_job.verify.foreign import ForeignLook, check_foreign
from spark_job.verify.multiset import compare_counts, plan_multiset
from spark_job.verify.places import describe, read_key
from spark_job.verify.sample import check_sample
from spark_job.verify.segments import check_segment
from spark_job.verify.subject import Subject, open_subject

_READERS = 4
_STOPS = (
    "the next merge stops at a key that is twice there: delete one of its rows with the engine that wrote it"
)
_NOT_KEPT = (
    "{:,} keys that the changelog deleted have no flagged row: they were deleted before delete_mode became soft, or "
    "their rows were removed by others"
)

Progress = Callable[[str, int, int], None]
"""A step, how much of it is done, and how much there is (0: not known)."""


@dataclass(frozen=True)
class Options:
    """What to look at: `sample` rows and entries, or everything. Keys of rows are shown only if `show_keys`."""

    sample: int = 1000
    deep: bool = False
    show_keys: bool = False
    allow_foreign: bool = False


def verify_table(
    pipeline: Pipeline, table: TableSettings, options: Options, progress: Progress = lambda *_: None
) -> VerifyReport:
    """What the table, its index and its changelog say of each other."""
    began = pipeline.clock()
    progress("metadata", 0, 0)
    subject = open_subject(pipeline, table)
    segments = subject.mirror.root.segments if subject.mirror.root else ()
    damaged = _check_segments(subject, options, progress)
    findings = [
        *subject.findings,
        *finding(Kind.UNREADABLE, (filled(str(one), table.name) for one in damaged)),
    ]
    notes = list(subject.notes)
    if damaged:
        notes.append("rows could not be compared with the index, of which a part cannot be read")
    if subject.shape.is_keyless:
        looked = _compare_rows(pipeline, subject, options, progress)
    elif options.deep:
        looked = _compare_all(pipeline, subject, options, progress, readable=not damaged)
    else:
        looked = _compare_some(subject, options, progress, readable=not damaged)
    findings += looked.findings
    notes += looked.notes
    mirror = subject.mirror
    if mirror.foreign and any(one.kind is Kind.DOUBLED_KEY for one in findings):
        notes.append(_STOPS)
    return VerifyReport(
        table=table.name,
        mode="deep" if options.deep else "fast",
        equal=not [one for one in findings if _counts(one, options)],
        snapshot_id=mirror.head.snapshot_id if mirror.head else None,
        cursor=mirror.cursor,
        live_rows=sum(file.rows - file.deleted for file in subject.head_files.values()),
        checked=looked.checked.model_copy(
            update={"data_files": len(subject.head_files), "segments": len(segments)}
        ),
        findings=tuple(findings),
        notes=tuple(filled(note, table.name) for note in notes),
        seconds=round(pipeline.clock() - began, 4),
    )


def _counts(one: Finding, options: Options) -> bool:
    return not (options.allow_foreign and one.kind is Kind.FOREIGN_ROW)


def _check_segments(subject: Subject, options: Options, progress: Progress) -> Sequence[DamagedSegment]:
    root = subject.mirror.root
    if root is None:
        return ()
    progress("segments", 0, len(root.segments))
    damaged = unreadable_segments(subject.io, root.segments)
    if not options.deep or damaged:
        return damaged
    with ThreadPoolExecutor(_READERS) as pool:
        for done, damage in enumerate(pool.map(lambda one: check_segment(subject.io, one), root.segments), 1):
            damaged += [damage] if damage else []
            progress("segments", done, len(root.segments))
    return damaged


@dataclass(frozen=True)
class _Looked:
    """What a look at rows came to."""

    findings: Sequence[Finding] = ()
    checked: Checked = field(default_factory=Checked)
    notes: Sequence[str] = ()


def _compare_some(subject: Subject, options: Options, progress: Progress, *, readable: bool) -> _Looked:
    if not readable or not subject.field_map:
        return _Looked()
    progress("sample", 0, 0)
    try:
        sampled = check_sample(subject, options.sample, np.random.default_rng(time.time_ns()))
        theirs = check_foreign(subject) if options.sample else ForeignLook()
    except (Corrupt, Invalid) as error:
        return _Looked(finding(Kind.UNREADABLE, [str(error)]))
    wrong: dict[Kind, Sequence[tuple[str, int]]] = dict(sampled.wrong)
    if theirs.doubled:
        wrong[Kind.DOUBLED_KEY] = theirs.doubled
    findings = [
        Finding(
            kind=kind,
            count=len(places),
            places=tuple(f"row {row} of {path}" for path, row in places[:MOST_PLACES]),
            keys=_keys(subject, places[:MOST_PLACES]) if options.show_keys else None,
        )
        for kind, places in wrong.items()
    ]
    return _Looked(findings, Checked(rows=sampled.rows, entries=sampled.entries), theirs.notes)


def _compare_rows(pipeline: Pipeline, subject: Subject, options: Options, progress: Progress) -> _Looked:
    """Of a table without a key: how many rows there are, or how often each is there."""
    if not options.deep or not subject.field_map or subject.history is None:
        return _Looked(compare_counts(subject))
    progress("rows", 0, 0)
    try:
        work = plan_multiset(subject)
        compared = fold(run_here_or(pipeline.engine, work) if work.files else [])
        checked = Checked(rows=compared.rows, events=compared.events)
        return _Looked(describe(work, compared, show_keys=False), checked)
    except (Corrupt, Invalid) as error:
        return _Looked(finding(Kind.UNREADABLE, [str(error)]))


def _keys(subject: Subject, places: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """The keys of these rows; those that are not there have none."""
    files = {**subject.head_files, **(subject.index_files or {})}
    return tuple(
        read_key(subject.io, path, subject.key_ids, row) if path in files and row < files[path].rows else "?"
        for path, row in places
    )


def _compare_all(
    pipeline: Pipeline, subject: Subject, options: Options, progress: Progress, *, readable: bool
) -> _Looked:
    if not subject.field_map:
        return _Looked()
    progress("rows", 0, 0)
    try:
        work = plan_deep(subject, with_index=readable)
        compared = fold(run_here_or(pipeline.engine, work) if work.files else [])
        checked = Checked(rows=compared.rows, events=compared.events, entries=compared.entries)
        findings = describe(work, compared, show_keys=options.show_keys)
        gone = sum(one.count for one in findings if one.kind is Kind.NOT_KEPT)
        notes = [_NOT_KEPT.format(gone)] if gone else []
        return _Looked([one for one in findings if one.kind is not Kind.NOT_KEPT], checked, notes)
    except (Corrupt, Invalid) as error:
        return _Looked(finding(Kind.UNREADABLE, [str(error)]))
