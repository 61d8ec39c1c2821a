"""Verifies a mirror: metadata, then segments, then a sample of rows or all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from icemirror.errors import Corrupt, Invalid, with_table_name
from icemirror.settings import TableSettings
from spark_job.commands.check_segments import check_contents, check_directories
from spark_job.commands.verify.deep_check import DeepWork, combine_ranges, plan_deep
from spark_job.commands.verify.describe_differences import describe_differences, read_key
from spark_job.commands.verify.keyless_check import compare_counts, plan_keyless
from spark_job.commands.verify.sample import ForeignRowsCheck, check_foreign_rows, check_sample
from spark_job.commands.verify.subject import VerifySubject, open_subject
from spark_job.commands.verify.verify_report import (
    MAX_LOCATIONS,
    CheckedCounts,
    FindingKind,
    VerifyFinding,
    VerifyReport,
    as_findings,
)
from spark_job.engine.engine import run_inspection
from spark_job.index.damaged_segment import DamagedSegment
from spark_job.pipeline import Pipeline

_READERS = 4
_DUPLICATE_STOPS_MERGE = (
    "the next merge stops at a duplicate key: delete one of its rows with the engine that wrote it"
)
_SOFT_DELETES_MISSING = (
    "{:,} keys that the changelog deleted have no flagged row: they were deleted before delete_mode became soft, or "
    "another writer removed their rows"
)

Progress = Callable[[str, int, int], None]
"""Called with a step, how much of it is done, and its total (0: unknown)."""


@dataclass(frozen=True)
class VerifyOptions:
    """What to compare: `sample` rows and entries, or everything (`deep`). `show_keys`: report keys of rows."""

    sample: int = 1000
    deep: bool = False
    show_keys: bool = False
    allow_foreign: bool = False


def verify_table(
    pipeline: Pipeline, table: TableSettings, options: VerifyOptions, progress: Progress = lambda *_: None
) -> VerifyReport:
    """Return the differences between the mirror, its index and its changelog."""
    began = pipeline.clock_seconds()
    progress("metadata", 0, 0)
    subject = open_subject(pipeline, table)
    segments = subject.mirror.root.segments if subject.mirror.root else ()
    damaged = _check_segments(subject, options, progress)
    findings = [
        *subject.findings,
        *as_findings(
            FindingKind.UNREADABLE, (with_table_name(str(damage), table.name) for damage in damaged)
        ),
    ]
    notes = list(subject.notes)
    if damaged:
        notes.append("rows could not be compared with the index: some of its segments cannot be read")
    if subject.shape.is_keyless:
        result = _compare_keyless(pipeline, subject, options, progress)
    elif options.deep:
        result = _compare_all(pipeline, subject, options, progress, readable=not damaged)
    else:
        result = _compare_sample(subject, options, progress, readable=not damaged)
    findings += result.findings
    notes += result.notes
    mirror = subject.mirror
    if mirror.has_foreign_writes and any(finding.kind is FindingKind.DUPLICATE_KEY for finding in findings):
        notes.append(_DUPLICATE_STOPS_MERGE)
    return VerifyReport(
        table=table.name,
        mode="deep" if options.deep else "fast",
        equal=not [finding for finding in findings if _is_difference(finding, options)],
        snapshot_id=mirror.head.snapshot_id if mirror.head else None,
        cursor=mirror.cursor,
        live_rows=sum(file.live_rows for file in subject.head_files.values()),
        checked=result.checked.model_copy(
            update={"data_files": len(subject.head_files), "segments": len(segments)}
        ),
        findings=tuple(findings),
        notes=tuple(with_table_name(note, table.name) for note in notes),
        seconds=round(pipeline.clock_seconds() - began, 4),
    )


def _is_difference(finding: VerifyFinding, options: VerifyOptions) -> bool:
    return not (options.allow_foreign and finding.kind is FindingKind.FOREIGN_ROW)


def _check_segments(
    subject: VerifySubject, options: VerifyOptions, progress: Progress
) -> Sequence[DamagedSegment]:
    root = subject.mirror.root
    if root is None:
        return ()
    progress("segments", 0, len(root.segments))
    damaged = check_directories(subject.io, root.segments)
    if not options.deep or damaged:
        return damaged
    with ThreadPoolExecutor(_READERS) as pool:
        for checked_count, damage in enumerate(
            pool.map(lambda segment: check_contents(subject.io, segment), root.segments), 1
        ):
            damaged += [damage] if damage else []
            progress("segments", checked_count, len(root.segments))
    return damaged


@dataclass(frozen=True)
class _RowsResult:
    """The result of comparing rows."""

    findings: Sequence[VerifyFinding] = ()
    checked: CheckedCounts = field(default_factory=CheckedCounts)
    notes: Sequence[str] = ()


def _compare_sample(
    subject: VerifySubject, options: VerifyOptions, progress: Progress, *, readable: bool
) -> _RowsResult:
    if not readable or not subject.field_map:
        return _RowsResult()
    progress("sample", 0, 0)
    try:
        sampled = check_sample(subject, options.sample, np.random.default_rng(time.time_ns()))
        foreign = check_foreign_rows(subject) if options.sample else ForeignRowsCheck()
    except (Corrupt, Invalid) as error:
        return _RowsResult(as_findings(FindingKind.UNREADABLE, [str(error)]))
    differences: dict[FindingKind, Sequence[tuple[str, int]]] = dict(sampled.differences)
    if foreign.duplicates:
        differences[FindingKind.DUPLICATE_KEY] = foreign.duplicates
    findings = [
        VerifyFinding(
            kind=kind,
            count=len(locations),
            places=tuple(f"row {row} of {path}" for path, row in locations[:MAX_LOCATIONS]),
            keys=_read_keys(subject, locations[:MAX_LOCATIONS]) if options.show_keys else None,
        )
        for kind, locations in differences.items()
    ]
    return _RowsResult(findings, CheckedCounts(rows=sampled.rows, entries=sampled.entries), foreign.notes)


def _compare_keyless(
    pipeline: Pipeline, subject: VerifySubject, options: VerifyOptions, progress: Progress
) -> _RowsResult:
    """Return the differences of a table without a key: the number of rows, or with `deep` how often each occurs."""
    if not options.deep or not subject.field_map or subject.history is None:
        return _RowsResult(compare_counts(subject))
    progress("rows", 0, 0)
    try:
        work = plan_keyless(subject)
        compared = combine_ranges(run_inspection(pipeline.engine, work) if work.files else [])
        checked = CheckedCounts(rows=compared.rows, events=compared.events)
        return _RowsResult(describe_differences(work, compared, show_keys=False), checked)
    except (Corrupt, Invalid) as error:
        return _RowsResult(as_findings(FindingKind.UNREADABLE, [str(error)]))


def _read_keys(subject: VerifySubject, locations: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Return the keys of these rows; `?` for a row that does not exist."""
    files = {**subject.head_files, **(subject.index_files or {})}
    return tuple(
        read_key(subject.io, path, subject.key_ids, row) if path in files and row < files[path].rows else "?"
        for path, row in locations
    )


def _compare_all(
    pipeline: Pipeline, subject: VerifySubject, options: VerifyOptions, progress: Progress, *, readable: bool
) -> _RowsResult:
    if not subject.field_map:
        return _RowsResult()
    progress("rows", 0, 0)
    try:
        work = plan_deep(subject, with_index=readable, work_type=DeepWork)
        compared = combine_ranges(run_inspection(pipeline.engine, work) if work.files else [])
        checked = CheckedCounts(rows=compared.rows, events=compared.events, entries=compared.entries)
        findings = describe_differences(work, compared, show_keys=options.show_keys)
        missing_soft_deletes = sum(
            finding.count for finding in findings if finding.kind is FindingKind.SOFT_DELETE_MISSING
        )
        notes = [_SOFT_DELETES_MISSING.format(missing_soft_deletes)] if missing_soft_deletes else []
        return _RowsResult(
            [finding for finding in findings if finding.kind is not FindingKind.SOFT_DELETE_MISSING],
            checked,
            notes,
        )
    except (Corrupt, Invalid) as error:
        return _RowsResult(as_findings(FindingKind.UNREADABLE, [str(error)]))
