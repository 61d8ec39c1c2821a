"""What is told of a key; the names are those of `--json`."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict
from pyiceberg.table.snapshots import Snapshot

from icemirror.cursor import Cursor
from spark_job.changelog.bad_rows import Reason
from spark_job.columns.json_values import Json
from spark_job.explain.fates import Fate
from spark_job.explain.mirrored_row import Check, Writer
from spark_job.index_upkeep.inspect_index import Unreadable
from spark_job.verify.findings import Kind


class State(StrEnum):
    """What a reader of the mirror finds."""

    PRESENT = "present"
    FLAGGED = "flagged"  # there, and flagged as deleted
    DELETED = "deleted"
    MISSING = "missing"  # by the changelog there must be a row
    NEVER_SEEN = "never-seen"
    UNKNOWN = "unknown"  # a file that may hold it cannot be read
    NO_MIRROR = "no-mirror"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RowReport(_Frozen):
    """The row, and who put its data file into the mirror. `flagged`: as deleted, where deletes keep their rows."""

    file: str
    position: int
    written_by: Writer
    snapshot_id: int | None
    committed_at: str | None
    values: dict[str, Json] | None
    flagged: bool | None = None


class IndexReport(_Frozen):
    """What the index says: `row`, `tombstone` or `nothing`; and what there is at the place of the row.

    `commit`: the number of the changelog's commit; together with the sequence it is the order of the key.
    """

    says: str
    file: str | None
    position: int | None
    check: Check | None
    sequence: dict[str, Json] | None
    commit: int | None


class EventReport(_Frozen):
    """An event; `number` counts from the oldest in the order of events, `by` and `repeat_of` are such numbers."""

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
    fate: Fate
    will: Fate | None
    by: int | None
    repeat_of: int | None
    words: str
    values: dict[str, Json] | None


class RejectedReport(_Frozen):
    """An event that cannot be merged, and so does not count. `merged`: the mirror has moved past it."""

    reason: Reason
    snapshot_id: int
    commit: int
    committed_at: str | None
    file: str
    position: int
    merged: bool
    words: str


class Difference(_Frozen):
    """What is not as it should be, by the names of `verify`."""

    kind: Kind
    what: str


class FilesRead(_Frozen):
    """How many files were opened, and of how many."""

    changelog_files: int
    of_changelog_files: int
    data_files: int
    of_data_files: int


class ExplainReport(_Frozen):
    """All that is known of a key. `equal`: index, rows and changelog do not contradict each other.

    `complete`: the changelog can be followed, and every file that was asked could be read.
    """

    table: str
    changelog: str
    key: dict[str, Json]
    state: State
    equal: bool
    complete: bool
    snapshot_id: int | None
    cursor: Cursor | None
    row: RowReport | None
    index: IndexReport | None
    events: tuple[EventReport, ...]
    rejected: tuple[RejectedReport, ...] = ()
    findings: tuple[Difference, ...]
    unreadable: tuple[Unreadable, ...]
    notes: tuple[str, ...]
    read: FilesRead
    seconds: float


def commit_time(snapshot: Snapshot | None) -> str | None:
    """When a snapshot was committed; None if it has expired."""
    if snapshot is None:
        return None
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
