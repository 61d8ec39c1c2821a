"""Gives rows the values that their events say have not changed.

The value of such a column is that of the event before, of the same key, and so on back to one that tells it; before all
events of the slice that count it is that of the mirror's row, read by (file, position). Where the mirror has no row,
the changelog that is merged already is asked. A delete ends the search, and so does a change of the key: what the row
had under its old key is not looked for.

Where deletes keep their row, they are events that leave every value as it was: they end nothing. The first event of a
key may be one, and then the row is what it carries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from icemirror.errors import Invalid
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes, concat_changes
from spark_job.changelog.marker import Marker
from spark_job.changelog.read_changes import read_changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.collapse import order_of_events
from spark_job.columns.field_map import FieldMap
from spark_job.doubtful import NeedsHistory
from spark_job.key_index.keys import U64, Indices, Keys, Mask, are_among, last_not_above
from spark_job.key_index.orders import compare_orders, exceeds
from spark_job.locate import ABSENT, Index, Known, look_up
from spark_job.unchanged.look_back import LookBack, read_at_places
from spark_job.unchanged.soft_deletes import are_deletes


@dataclass(frozen=True)
class Story:
    """Events, and the files that they are in. `most_bytes`: how much may be read at once, of several rows."""

    io: FileIO
    files: Sequence[ChangeFile]
    shape: ChangelogShape
    ids: FieldMap
    events: Changes
    most_bytes: int | None = None

    @property
    def orders(self) -> U64:
        """Sequence and changelog snapshot of each event."""
        numbers = np.array([file.sequence_number for file in self.files], dtype=np.uint64)
        return np.column_stack([self.events.sequence, numbers[self.events.file]])

    def take(self, some: Mask) -> Story:
        """Some of the events."""
        return replace(self, events=self.events.take(some))

    def about(self, keys: Keys) -> Story:
        """The events of some keys, which must be ascending."""
        return self.take(are_among(self.events.keys, keys))

    def read(self, some: Indices, schema: Schema) -> pa.Table:
        """Columns of the mirror, those of a schema, as these events have them."""
        events = self.events.take(some)
        return read_at_places(
            self.io,
            self.files,
            events.file,
            events.row,
            self.ids,
            schema,
            self.shape.defaults,
            self.most_bytes,
        )


@dataclass(frozen=True)
class OldValues:
    """All that there is to ask. `files` are the mirror's, by the ordinals of the index; `history` is None where the
    changelog that is merged has not been asked for, `expired` the newest tombstone that is forgotten."""

    story: Story
    mirror_io: FileIO
    index: Index
    files: tuple[ChangeFile, ...]
    schema: Schema
    history: tuple[ChangeFile, ...] | None
    expired: tuple[int, ...] | None
    replay: bool

    def fill(self, winners: Changes, rows: pa.Table) -> pa.Table:
        """The rows of these events, with the values that have not changed.

        Raises `TooMuch` where these take more memory than they may, and there are several rows.
        """
        if len(winners) == 1 and self.story.most_bytes is not None:
            return replace(self, story=replace(self.story, most_bytes=None)).fill(winners, rows)
        marker = self.story.shape.marker
        marked = self._left_out(winners, rows)
        if not marked:
            return rows
        places = np.flatnonzero(np.logical_or.reduce(list(marked.values())))
        places = places[winners.keys.take(places).argsort()]
        some = winners.take(places)
        search = LookBack(
            self.schema, marker, some.keys, {name: mask[places] for name, mask in marked.items()}
        )
        missing = self._search(search, replace(self.story, events=some))
        self._settle(search, some, missing)
        return search.patch(rows, places)

    def _left_out(self, winners: Changes, rows: pa.Table) -> Mapping[str, Mask]:
        """By column: which of the rows keep the value that they had; columns of which none does are left out."""
        marker, keys = self.story.shape.marker, self._key_names
        marked = {} if marker is None else marked_values(rows, marker, keys)
        deletes = are_deletes(winners)
        if not self.story.shape.keeps_deleted or not deletes.any():
            return marked
        theirs = set(self.story.ids.values())
        names = [one.name for one in self.schema.fields if one.field_id in theirs and one.name not in keys]
        return {name: marked[name] | deletes if name in marked else deletes for name in names}

    @property
    def _key_names(self) -> set[str]:
        shape, ids = self.story.shape, self.story.ids
        return {self.schema.find_field(ids[key_id]).name for key_id in shape.key_ids}

    def _search(self, search: LookBack, winners: Story) -> Mask:
        """Looks everything up; which keys have an end in the events, before which there is nothing."""
        known = look_up(self.index, search.keys, (0,) * (winners.shape.sequence.parts + 1))
        # A replay sees a part of what is merged; what came before it counts as well.
        told = self._merged(search.keys) if self.replay else self.story.about(search.keys)
        told = self._that_count(told, search.keys, known)
        ended = self._ask_events(search, told, skip_last=not self.replay)
        self._ask_rows(search, known, ~ended)
        self._ask_first_deletes(search, told, ~ended)
        if not (search.unsettled & ~ended).any() or self.replay:
            return ended
        if self.history is None:
            raise NeedsHistory("values have not changed, but the mirror does not have their rows")
        told = self._with_merged(search.keys)
        owner = last_not_above(search.keys, told.events.keys)
        # Not by commits: whoever compacts a changelog gives its events others.
        before = compare_orders(told.events.sequence, winners.events.sequence[owner]) <= 0
        told = told.take(before & ~ended[owner])
        ended |= self._ask_events(search, told, skip_last=True)
        self._ask_first_deletes(search, told, ~ended)
        return ended

    def _ask_events(self, search: LookBack, told: Story, *, skip_last: bool) -> Mask:
        if self.story.shape.keeps_deleted:
            told, skip_last = told.take(~are_deletes(told.events)), False
        return search.ask_events(told.events, told.read, skip_last=skip_last)

    def _ask_first_deletes(self, search: LookBack, told: Story, may: Mask) -> None:
        """Where deletes keep their row, and the first event of a key is one: what that carries."""
        if not self.story.shape.keeps_deleted or not (search.unsettled & may).any():
            return
        order = order_of_events(told.events)
        owners, first = np.unique(
            last_not_above(search.keys, told.events.keys.take(order)), return_index=True
        )
        wanted = (search.unsettled & may)[owners] & are_deletes(told.events)[order[first]]
        if not wanted.any():
            return
        at = owners[wanted]
        search.take(at, told.read(order[first[wanted]], search.schema))
        some = np.zeros(len(search.keys), dtype=np.bool_)
        some[at] = True
        search.settle_with_nulls(some)

    def _that_count(self, told: Story, keys: Keys, known: Known) -> Story:
        """Without events that are older than what is there, or than a tombstone that may have been there."""
        owner, orders = last_not_above(keys, told.events.keys), told.orders
        compared = compare_orders(orders, known.orders[owner])
        newer = compared > 0 if self.replay else compared >= 0
        late = np.zeros_like(newer) if self.expired is None else ~exceeds(orders, self.expired)
        return told.take(np.where(known.file[owner] == ABSENT, ~late, newer))

    def _merged(self, keys: Keys) -> Story:
        """What the changelog, as far as it is merged, tells of these keys."""
        story, parts = self.story, [self.story.events.take(np.empty(0, dtype=np.intp))]
        for ordinal, file in enumerate(self.history or ()):
            events = read_changes(story.io, file, ordinal, story.shape)
            parts.append(events.take(are_among(events.keys, keys)))
        return replace(story, files=self.history or (), events=concat_changes(parts))

    def _with_merged(self, keys: Keys) -> Story:
        """The same, and then what the slice tells."""
        merged, own = self._merged(keys), self.story.about(keys).events
        behind = replace(own, file=own.file + np.uint32(len(merged.files)))
        return replace(
            merged,
            files=(*merged.files, *self.story.files),
            events=concat_changes([merged.events, behind]),
        )

    def _ask_rows(self, search: LookBack, known: Known, may: Mask) -> None:
        at = np.flatnonzero(search.unsettled & may & (known.file >= 0))
        if not len(at):
            return
        file, row = known.file[at].astype(np.uint32), known.pos[at].astype(np.uint32)
        same = {target: target for target in self.story.ids.values()}
        found = read_at_places(
            self.mirror_io, self.files, file, row, same, search.schema, None, self.story.most_bytes
        )
        search.take(at, found, last=True)

    def _settle(self, search: LookBack, winners: Changes, ended: Mask) -> None:
        """What is still missing becomes NULL, or an error."""
        at = np.flatnonzero(search.unsettled)
        if not len(at):
            return
        shape, first = self.story.shape, int(at[0])
        name = search.open_columns(first)[0]
        required = [one.name for one in search.schema.fields if one.required]
        if shape.nulls_missing and not required:
            search.settle_with_nulls()
            return
        path = self.story.files[int(winners.file[first])].path
        why = "its key was deleted, or was another one, before" if ended[first] else "its key was never there"
        advice = (
            f"{name} cannot be NULL"
            if shape.nulls_missing
            else "`on_missing_value: set-null` writes NULL instead; else have the source tell the row once more"
        )
        raise Invalid(
            f"{shape.changelog}: {path}: row {int(winners.row[first])} says that {name} has not changed, but {why}, so "
            f"nobody knows its value. {advice}."
        )


def marked_values(rows: pa.Table, marker: Marker, without: set[str]) -> Mapping[str, Mask]:
    """By column: which rows say that their value has not changed; columns that all tell theirs are left out."""
    found = {name: marker.marks(rows[name]) for name in rows.column_names if name not in without}
    return {name: mask for name, mask in found.items() if mask is not None}


def complete_row(story: Story, row: pa.Table, schema: Schema) -> tuple[pa.Table, list[str]]:
    """The row of the last of the events of one key, with what those before it tell, and the columns that none does."""
    marker = story.shape.marker
    marked = {} if marker is None else marked_values(row, marker, set())
    if marker is None or not marked:
        return row, []
    search = LookBack(schema, marker, story.events.keys.take(np.zeros(1, dtype=np.intp)), marked)
    search.ask_events(story.events, story.read, skip_last=True)
    return search.patch(row, np.zeros(1, dtype=np.intp)), search.open_columns(0)
