"""The report about a key; field names are those of `--json`."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from pyiceberg.table.snapshots import Snapshot

from icemirror.tables.cursor import Cursor
from spark_job.changelog.bad_rows import RejectReason
from spark_job.columns.json_values import Json
from spark_job.commands.explain.event_outcomes import EventOutcome
from spark_job.commands.explain.find_row import EntryCheck, FileWriter
from spark_job.commands.report_model import ReportModel, UnreadableFile
from spark_job.commands.verify.verify_report import FindingKind


class KeyState(StrEnum):
    """What a reader of the mirror finds."""

    PRESENT = "present"
    FLAGGED = "flagged"  # present, but flagged as deleted
    DELETED = "deleted"
    MISSING = "missing"  # the changelog has a row
    NEVER_SEEN = "never-seen"
    UNKNOWN = "unknown"  # a file that may hold it cannot be read
    NO_MIRROR = "no-mirror"


class RowReport(ReportModel):
    """The row, and who added its data file. `flagged`: as deleted; None unless deletes only flag rows."""

    file: str
    position: int
    written_by: FileWriter
    snapshot_id: int | None
    committed_at: str | None
    values: dict[str, Json] | None
    flagged: bool | None = None


class KeyIndexReport(ReportModel):
    """The index entry: `row`, `tombstone` or `nothing`, and what the table has where it points.

    `commit`: the number of the changelog commit; with the sequence it is the order of the key.
    """

    says: str
    file: str | None
    position: int | None
    check: EntryCheck | None
    sequence: dict[str, Json] | None
    commit: int | None


class EventReport(ReportModel):
    """An event; `number` counts from the oldest, `by` and `repeat_of` refer to such numbers."""

    number: int
    operation: str
    does: str
    sequence: dict[str, Json]
    snapshot_id: int
    commit: int
    committed_at: str | None
    file: str
    position: int
    merged: bool
    fate: EventOutcome
    will: EventOutcome | None
    by: int | None
    repeat_of: int | None
    words: str
    values: dict[str, Json] | None


class RejectedReport(ReportModel):
    """An event that cannot be merged. `merged`: the cursor has moved past it."""

    reason: RejectReason
    snapshot_id: int
    commit: int
    committed_at: str | None
    file: str
    position: int
    merged: bool
    words: str


class KeyContradiction(ReportModel):
    """A difference between index, rows and changelog; `kind` as in `verify`."""

    kind: FindingKind
    what: str


class FilesRead(ReportModel):
    """How many files were read, and of how many."""

    changelog_files: int
    of_changelog_files: int
    data_files: int
    of_data_files: int


class ExplainReport(ReportModel):
    """Everything about a key. `equal`: index, rows and changelog do not contradict each other.

    `complete`: the cursor is in the changelog's history, and every needed file could be read.
    """

    table: str
    changelog: str
    key: dict[str, Json]
    state: KeyState
    equal: bool
    complete: bool
    snapshot_id: int | None
    cursor: Cursor | None
    row: RowReport | None
    index: KeyIndexReport | None
    events: tuple[EventReport, ...]
    rejected: tuple[RejectedReport, ...] = ()
    findings: tuple[KeyContradiction, ...]
    unreadable: tuple[UnreadableFile, ...]
    notes: tuple[str, ...]
    read: FilesRead
    seconds: float


def commit_time(snapshot: Snapshot | None) -> str | None:
    """Return when a snapshot was committed; None if it has expired."""
    if snapshot is None:
        return None
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
