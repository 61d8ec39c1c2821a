"""Everything found about a key, and what follows: its state, contradictions between the parts, and notes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from icemirror.errors import NO_MIRROR_YET
from spark_job.changelog.shape import Operation
from spark_job.inspect.explain.event_outcomes import KeyEvents, is_outranked
from spark_job.inspect.explain.find_row import EntryCheck, FileWriter, FoundRow, KeyEntry, RowLocation
from spark_job.inspect.explain.merge_history import MergeHistory
from spark_job.inspect.explain.report import KeyContradiction, KeyState, commit_time
from spark_job.inspect.verify.verify_report import FindingKind
from spark_job.merge.collapse import order_of_events

_CHECK_FAILED = {
    EntryCheck.NO_FILE: "that data file is not in the table",
    EntryCheck.DELETED: "that row is deleted",
    EntryCheck.OTHER_KEY: "that row has another key",
}


@dataclass(frozen=True)
class KeyFacts:
    """`found` is None if there is no mirror. `complete`: every file that may hold merged events of the key was read.

    `differing`: columns in which the row differs from the event that it should have its values from.
    """

    history: MergeHistory
    events: KeyEvents
    complete: bool
    found: FoundRow | None = None
    writer: FileWriter | None = None
    differing: Sequence[str] = ()

    @property
    def entry(self) -> KeyEntry:
        """The entry of the index; an empty one if the index cannot be read."""
        return (self.found.entry if self.found else None) or KeyEntry()

    @property
    def outranked(self) -> bool:
        """Whether the index has a newer order than every merged event."""
        last, order = last_merged(self.events), self.entry.order
        return last is not None and order is not None and is_outranked(self.events, last, order)

    @property
    def last(self) -> Operation | None:
        """The operation of the last merged event; None if later events may be missing."""
        last = last_merged(self.events)
        missing = self.outranked and self.history.oldest is not None
        return None if last is None or not self.complete or missing else self.events.operation(last)

    @property
    def truncated(self) -> bool:
        """Whether the source was truncated after all merged events of the key."""
        return self.complete and self.events.merged > 0 and last_merged(self.events) is None

    @property
    def foreign(self) -> bool:
        """Whether another writer has committed since the index was written."""
        return self.history.mirror is not None and self.history.mirror.has_foreign_writes

    @property
    def state(self) -> KeyState:
        """What a reader of the mirror finds."""
        if self.history.mirror is None:
            return KeyState.NO_MIRROR
        if self.found is not None and self.found.rows:
            return KeyState.FLAGGED if self.found.flagged else KeyState.PRESENT
        if self.found is not None and not self.found.complete:
            return KeyState.UNKNOWN
        if self.entry.order is not None or self.last is Operation.DELETE or self.truncated:
            return KeyState.MISSING if self.entry.location is not None else KeyState.DELETED
        return KeyState.MISSING if self.last is Operation.UPSERT else KeyState.NEVER_SEEN


def last_merged(events: KeyEvents) -> int | None:
    """Return the last merged event that has an effect, in the order of events."""
    mergeable = events.mergeable
    if not len(mergeable):
        return None
    return int(mergeable[order_of_events(events.changes.take(mergeable))[-1]])


def find_contradictions(facts: KeyFacts) -> Iterator[KeyContradiction]:
    """Yield every difference between index, rows and changelog that `verify --deep` would count for this key."""
    found = facts.found
    if found is None:
        return
    rows, last = found.rows, facts.last if found.complete else None
    for extra in rows[1:]:
        yield _contradiction(
            FindingKind.DOUBLED_KEY, f"the mirror has a second row of the key, {_describe(extra)}"
        )
    if last is Operation.UPSERT and not rows:
        entry = found.entry
        is_tombstone = entry is not None and entry.location is None and entry.order is not None
        why = ": another writer deleted it" if is_tombstone or facts.foreign else ""
        yield _contradiction(
            FindingKind.MISSING_ROW, f"the changelog has a row, but the mirror has none{why}"
        )
    if last is Operation.UPSERT and found.flagged:
        yield _contradiction(
            FindingKind.DIFFERENT_ROW, "the row is flagged as deleted, but its last event did not delete it"
        )
    if last is Operation.DELETE and rows and not found.flagged:
        yield _contradiction(FindingKind.DELETED_ROW, "the changelog deleted the row, but the mirror has one")
    if facts.last is not None and facts.differing:
        yield _contradiction(
            FindingKind.DIFFERENT_ROW,
            f"the row differs from its last event in {', '.join(facts.differing)}",
        )
    if found.entry is not None and not facts.foreign:  # the next merge indexes foreign writes
        yield from _index_contradictions(found, found.entry.location)


def _index_contradictions(found: FoundRow, location: RowLocation | None) -> Iterator[KeyContradiction]:
    if location is None and found.rows:
        yield _contradiction(
            FindingKind.NOT_INDEXED, f"the index has no entry for {_describe(found.rows[0])}"
        )
    if location is None or found.check is None or found.check is EntryCheck.FOUND:
        return
    what = f"the index points at {_describe(location)}, but {_CHECK_FAILED[found.check]}"
    if found.rows:
        yield _contradiction(FindingKind.WRONG_LOCATION, f"{what}; the row is {_describe(found.rows[0])}")
    else:
        yield _contradiction(FindingKind.NO_SUCH_ROW, what)


def _describe(location: RowLocation) -> str:
    return f"row {location.position} of {location.path}"


def _contradiction(kind: FindingKind, what: str) -> KeyContradiction:
    return KeyContradiction(kind=kind, what=what)


def notes_on(facts: KeyFacts) -> Iterator[str]:
    """Yield what else a reader of the report should know, in sentences."""
    history, events = facts.history, facts.events
    if history.mirror is None:
        yield f"{NO_MIRROR_YET}."
    elif history.mirror.head is None:
        yield "the mirror is empty: nothing was merged into it yet."
    if history.refused is not None:
        yield history.refused
    waiting = len(events) - events.merged
    if waiting:
        yield f"{waiting:,} of its events wait to be merged; `icemirror status` shows the lag of the mirror."
    if history.oldest is not None:
        yield (
            f"snapshots of the changelog before {history.oldest.snapshot_id} of {commit_time(history.oldest)} have "
            "expired: their events are known if their files are still in the table, their commit times are not."
        )
    if history.ahead is not None:
        yield (
            "a truncation of the source waits to be merged: the mirror is then rebuilt without the rows before it "
            "(with on_truncate: stop, the merge stops there)."
        )
    yield from _row_notes(facts)


def _row_notes(facts: KeyFacts) -> Iterator[str]:
    state, entry = facts.state, facts.entry
    if facts.foreign:
        yield "another writer has committed to the mirror since the last merge; the next merge indexes that."
    if facts.outranked:
        yield (
            "the index has a newer order for this key than every event in the changelog: its event is no longer in "
            "the changelog, or another writer wrote the row, which counts as the newest change merged at that time."
        )
    present = state in (KeyState.PRESENT, KeyState.FLAGGED)
    if present and not facts.events.merged and facts.complete:
        yield (
            "the merged part of the changelog has no event of this key: another writer wrote the row, or it was in the "
            "table before it was adopted, or its events are no longer in the changelog."
        )
    elif present and facts.writer is FileWriter.OTHER:
        same = "equals its last event" if not facts.differing else "differs from its last event"
        yield f"another writer wrote the data file of the row, by moving, changing or adopting it; the row {same}."
    if state is KeyState.DELETED and facts.truncated:
        yield "the source was truncated after the last merged event of this key."
    elif state is KeyState.DELETED and entry.order is None:
        yield "the tombstone of the key has expired; late events are compared with the changelog instead."
    if state is KeyState.DELETED and facts.last is Operation.UPSERT:
        yield "another writer deleted the row; the next newer event of its key inserts it again."
