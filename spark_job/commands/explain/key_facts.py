"""What is known about a key, and what follows: its state, contradictions and notes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from icemirror.errors import NO_MIRROR_YET
from spark_job.changelog.shape import Operation
from spark_job.commands.explain.event_outcomes import KeyEvents, is_older_than_index
from spark_job.commands.explain.explained_table import ExplainedTable
from spark_job.commands.explain.find_row import EntryCheck, FileWriter, FoundRow, KeyEntry, RowLocation
from spark_job.commands.explain.report import KeyContradiction, KeyState, commit_time
from spark_job.commands.verify.verify_report import FindingKind
from spark_job.merge.collapse import argsort_events

_CHECK_FAILED = {
    EntryCheck.NO_FILE: "that data file is not in the table",
    EntryCheck.DELETED: "that row is deleted",
    EntryCheck.OTHER_KEY: "that row has another key",
}


@dataclass(frozen=True)
class KeyFacts:
    """What is known about a key. `found_row` is None if there is no mirror.

    `is_complete`: every file that may hold merged events of the key was read. `differing_columns`: those in which the
    row differs from the event that it should have its values from.
    """

    explained: ExplainedTable
    events: KeyEvents
    is_complete: bool
    found_row: FoundRow | None = None
    writer: FileWriter | None = None
    differing_columns: Sequence[str] = ()

    @property
    def entry(self) -> KeyEntry:
        """The entry of the index; an empty one if the index cannot be read."""
        return (self.found_row.entry if self.found_row else None) or KeyEntry()

    @property
    def is_older_than_index(self) -> bool:
        """True if the index has a newer order than every merged event."""
        last_event, order = find_last_merged(self.events), self.entry.order
        return (
            last_event is not None
            and order is not None
            and is_older_than_index(self.events, last_event, order)
        )

    @property
    def last_operation(self) -> Operation | None:
        """The operation of the last merged event; None if later events may be missing."""
        last_event = find_last_merged(self.events)
        missing = self.is_older_than_index and self.explained.oldest_snapshot is not None
        return (
            None
            if last_event is None or not self.is_complete or missing
            else self.events.operation(last_event)
        )

    @property
    def is_truncated(self) -> bool:
        """True if the source was truncated after all merged events of the key."""
        return self.is_complete and self.events.merged_count > 0 and find_last_merged(self.events) is None

    @property
    def has_foreign_writes(self) -> bool:
        """True if another writer has committed since the index was written."""
        return self.explained.mirror is not None and self.explained.mirror.has_foreign_writes

    @property
    def state(self) -> KeyState:
        """What a reader of the mirror finds."""
        if self.explained.mirror is None:
            return KeyState.NO_MIRROR
        if self.found_row is not None and self.found_row.rows:
            return KeyState.FLAGGED if self.found_row.is_flagged else KeyState.PRESENT
        if self.found_row is not None and not self.found_row.is_complete:
            return KeyState.UNKNOWN
        if self.entry.order is not None or self.last_operation is Operation.DELETE or self.is_truncated:
            return KeyState.MISSING if self.entry.location is not None else KeyState.DELETED
        return KeyState.MISSING if self.last_operation is Operation.UPSERT else KeyState.NEVER_SEEN


def find_last_merged(events: KeyEvents) -> int | None:
    """Return the index of the last merged event that has an effect, in the order of events."""
    effective = events.effective
    if not len(effective):
        return None
    return int(effective[argsort_events(events.batch.take(effective))[-1]])


def find_contradictions(facts: KeyFacts) -> Iterator[KeyContradiction]:
    """Yield every difference between index, rows and changelog that `verify --deep` would count for this key."""
    found_row = facts.found_row
    if found_row is None:
        return
    rows, last_operation = found_row.rows, facts.last_operation if found_row.is_complete else None
    for duplicate in rows[1:]:
        yield _contradiction(
            FindingKind.DUPLICATE_KEY, f"the mirror has a second row of the key, {_describe(duplicate)}"
        )
    if last_operation is Operation.UPSERT and not rows:
        entry = found_row.entry
        is_tombstone = entry is not None and entry.location is None and entry.order is not None
        reason = ": another writer deleted it" if is_tombstone or facts.has_foreign_writes else ""
        yield _contradiction(
            FindingKind.MISSING_ROW, f"the changelog has a row, but the mirror has none{reason}"
        )
    if last_operation is Operation.UPSERT and found_row.is_flagged:
        yield _contradiction(
            FindingKind.DIFFERENT_ROW, "the row is flagged as deleted, but its last event did not delete it"
        )
    if last_operation is Operation.DELETE and rows and not found_row.is_flagged:
        yield _contradiction(FindingKind.DELETED_ROW, "the changelog deleted the row, but the mirror has one")
    if facts.last_operation is not None and facts.differing_columns:
        yield _contradiction(
            FindingKind.DIFFERENT_ROW,
            f"the row differs from its last event in {', '.join(facts.differing_columns)}",
        )
    if found_row.entry is not None and not facts.has_foreign_writes:  # the next merge indexes foreign writes
        yield from _index_contradictions(found_row, found_row.entry.location)


def _index_contradictions(found_row: FoundRow, location: RowLocation | None) -> Iterator[KeyContradiction]:
    if location is None and found_row.rows:
        yield _contradiction(
            FindingKind.NOT_INDEXED, f"the index has no entry for {_describe(found_row.rows[0])}"
        )
    if location is None or found_row.check is None or found_row.check is EntryCheck.FOUND:
        return
    problem = f"the index points at {_describe(location)}, but {_CHECK_FAILED[found_row.check]}"
    if found_row.rows:
        yield _contradiction(
            FindingKind.WRONG_LOCATION, f"{problem}; the row is {_describe(found_row.rows[0])}"
        )
    else:
        yield _contradiction(FindingKind.NO_SUCH_ROW, problem)


def _describe(location: RowLocation) -> str:
    return f"row {location.position} of {location.path}"


def _contradiction(kind: FindingKind, description: str) -> KeyContradiction:
    return KeyContradiction(kind=kind, what=description)


def build_notes(facts: KeyFacts) -> Iterator[str]:
    """Yield sentences about what else a reader of the report should know."""
    explained, events = facts.explained, facts.events
    if explained.mirror is None:
        yield f"{NO_MIRROR_YET}."
    elif explained.mirror.head is None:
        yield "the mirror is empty: nothing was merged into it yet."
    if explained.problem is not None:
        yield explained.problem
    waiting_count = len(events) - events.merged_count
    if waiting_count:
        yield f"{waiting_count:,} of its events wait to be merged; `icemirror status` shows the lag of the mirror."
    if explained.oldest_snapshot is not None:
        yield (
            f"snapshots of the changelog before {explained.oldest_snapshot.snapshot_id} of "
            f"{commit_time(explained.oldest_snapshot)} have expired: their events are known if their files are "
            "still in the table, their commit times are not."
        )
    if explained.unmerged_truncation is not None:
        yield (
            "a truncation of the source waits to be merged: the mirror is then rebuilt without the rows before it "
            "(with on_truncate: stop, the merge stops there)."
        )
    yield from _row_notes(facts)


def _row_notes(facts: KeyFacts) -> Iterator[str]:
    state, entry = facts.state, facts.entry
    if facts.has_foreign_writes:
        yield "another writer has committed to the mirror since the last merge; the next merge indexes that."
    if facts.is_older_than_index:
        yield (
            "the index has a newer order for this key than every event in the changelog: its event is no longer in "
            "the changelog, or another writer wrote the row, which counts as the newest change merged at that time."
        )
    is_present = state in (KeyState.PRESENT, KeyState.FLAGGED)
    if is_present and not facts.events.merged_count and facts.is_complete:
        yield (
            "the merged part of the changelog has no event of this key: another writer wrote the row, or it was in the "
            "table before it was adopted, or its events are no longer in the changelog."
        )
    elif is_present and facts.writer is FileWriter.OTHER:
        comparison = "equals its last event" if not facts.differing_columns else "differs from its last event"
        yield (
            "another writer wrote the data file of the row, by moving, changing or adopting it; "
            f"the row {comparison}."
        )
    if state is KeyState.DELETED and facts.is_truncated:
        yield "the source was truncated after the last merged event of this key."
    elif state is KeyState.DELETED and entry.order is None:
        yield "the tombstone of the key has expired; late events are compared with the changelog instead."
    if state is KeyState.DELETED and facts.last_operation is Operation.UPSERT:
        yield "another writer deleted the row; the next newer event of its key inserts it again."
