"""All that was found out about a key, and what follows from it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from icemirror.errors import NO_MIRROR_YET
from spark_job.changelog.shape import Operation
from spark_job.collapse import order_of_events
from spark_job.explain.contradictions import Scene
from spark_job.explain.fates import KeyEvents, is_outranked
from spark_job.explain.find_row import RowFound
from spark_job.explain.mirrored_row import Entry, Writer
from spark_job.explain.past import Past
from spark_job.explain.report import State, commit_time


@dataclass(frozen=True)
class Known:
    """`found` is None where there is no mirror; `differing`: columns in which the row is not that of its last event.

    `whole`: every file that may hold merged events of the key was read.
    """

    past: Past
    events: KeyEvents
    whole: bool
    found: RowFound | None = None
    writer: Writer | None = None
    differing: Sequence[str] = ()

    @property
    def entry(self) -> Entry:
        """What the index says, as far as it can be read."""
        return (self.found.entry if self.found else None) or Entry()

    @property
    def outranked(self) -> bool:
        """What is there is newer than every merged event."""
        last, order = last_merged(self.events), self.entry.order
        return last is not None and order is not None and is_outranked(self.events, last, order)

    @property
    def last(self) -> Operation | None:
        """What the last merged event does, unless events after it may be missing."""
        last = last_merged(self.events)
        lost = self.outranked and self.past.oldest is not None
        return None if last is None or not self.whole or lost else self.events.does(last)

    @property
    def truncated(self) -> bool:
        """The source was truncated after all of its merged events."""
        return self.whole and self.events.merged > 0 and last_merged(self.events) is None

    @property
    def state(self) -> State:
        """What a reader of the mirror finds."""
        if self.past.mirror is None:
            return State.NO_MIRROR
        if self.found is not None and self.found.rows:
            return State.FLAGGED if self.found.flagged else State.PRESENT
        if self.found is not None and not self.found.sure:
            return State.UNKNOWN
        if self.entry.order is not None or self.last is Operation.DELETE or self.truncated:
            return State.MISSING if self.entry.place is not None else State.DELETED
        return State.MISSING if self.last is Operation.UPSERT else State.NEVER_SEEN

    @property
    def scene(self) -> Scene:
        """What may contradict itself."""
        found, mirror = self.found, self.past.mirror
        return Scene(
            rows=found.rows if found else (),
            entry=found.entry if found else None,
            check=found.check if found else None,
            last=self.last if found and found.sure else None,
            differing=self.differing if self.last is not None else (),
            foreign=mirror is not None and mirror.foreign,
            flagged=found is not None and found.flagged,
        )


def last_merged(events: KeyEvents) -> int | None:
    """The last of the merged events that count, in the order of events."""
    counted = events.counted
    if not len(counted):
        return None
    return int(counted[order_of_events(events.changes.take(counted))[-1]])


def notes_on(known: Known) -> Iterator[str]:
    """What else there is to know, in sentences."""
    past, events = known.past, known.events
    if past.mirror is None:
        yield f"{NO_MIRROR_YET}."
    elif past.mirror.head is None:
        yield "the mirror is empty: nothing was merged into it yet."
    if past.refused is not None:
        yield past.refused
    waiting = len(events) - events.merged
    if waiting:
        yield f"{waiting:,} of its events wait to be merged; `icemirror status` tells how far the mirror is behind."
    if past.oldest is not None:
        yield (
            f"snapshots of the changelog before {past.oldest.snapshot_id} of {commit_time(past.oldest)} have expired: "
            "their events are known as far as their files are still in the table, the time of their commit is not."
        )
    if past.ahead is not None:
        yield (
            "a truncation of the source waits to be merged: the mirror is then built anew, without what was before it "
            "(with on_truncate: stop, the merge stops there)."
        )
    yield from _on_row(known)


def _on_row(known: Known) -> Iterator[str]:
    state, entry = known.state, known.entry
    if known.past.mirror is not None and known.past.mirror.foreign:
        yield "others have written to the mirror since the last merge; the next one takes that into the index."
    if known.outranked:
        yield (
            "what is there counts as newer than every event that is left: its event is gone from the changelog, or it "
            "is another writer's, which counts as the newest of what was merged when it came."
        )
    there = state in (State.PRESENT, State.FLAGGED)
    if there and not known.events.merged and known.whole:
        yield (
            "the changelog, as far as it is merged and still there, does not tell of this key: the row is another "
            "writer's, or was there before the table was adopted, or its events are gone."
        )
    elif there and known.writer is Writer.OTHER:
        same = (
            "it is what its last event tells"
            if not known.differing
            else "it is not what its last event tells"
        )
        yield f"another writer put the row into its data file, by moving, changing or adopting it; {same}."
    if state is State.DELETED and known.truncated:
        yield "the source was truncated after the last of its events that is merged."
    elif state is State.DELETED and entry.order is None:
        yield "the index has forgotten the key: its tombstone has expired. Late events are judged by the changelog."
    if state is State.DELETED and known.last is Operation.UPSERT:
        yield "another writer deleted the row; it comes back with the next event of its key that is newer."
