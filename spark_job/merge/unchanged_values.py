"""Fills the values that an event marks as unchanged.

The search for such a value goes back through:

    1. earlier events of the same key in the slice
    2. the mirror's row, read at (file, position)
    3. where the mirror has no row: events of the key in the merged part of the changelog

A delete ends the search, and so does a change of the key: values under the old key are not used.

With soft deletes, a delete keeps every value and does not end the search. If the first event of a key is a delete, its
own values are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from icemirror.errors import Invalid
from spark_job.changelog.changes import Changes, concat_changes
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.read_changes import read_changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder
from spark_job.columns.field_map import FieldMap
from spark_job.index.keys import U64, Indices, Keys, Mask, floor_indices, isin_sorted
from spark_job.index.orders import compare_orders, exceeds
from spark_job.merge.collapse import order_of_events
from spark_job.merge.locate import ABSENT, KeyLookup, SearchableIndex, look_up_keys
from spark_job.merge.previous_values import ValueSearch, read_at_positions
from spark_job.merge.shard_result import HistoryNeeded
from spark_job.merge.soft_deletes import are_deletes


@dataclass(frozen=True)
class EventHistory:
    """Events and the files that contain them. `max_bytes`: limit of one read of several rows."""

    io: FileIO
    files: Sequence[ChangelogFile]
    shape: ChangelogShape
    ids: FieldMap
    events: Changes
    max_bytes: int | None = None

    @property
    def orders(self) -> U64:
        """The order of each event: sequence and changelog snapshot."""
        numbers = np.array([file.sequence_number for file in self.files], dtype=np.uint64)
        return np.column_stack([self.events.sequence, numbers[self.events.file]])

    def take(self, selected: Mask) -> EventHistory:
        """Return a selection of the events."""
        return replace(self, events=self.events.take(selected))

    def of_keys(self, keys: Keys) -> EventHistory:
        """Return the events of some keys, which must be ascending."""
        return self.take(isin_sorted(self.events.keys, keys))

    def read(self, selected: Indices, schema: Schema) -> pa.Table:
        """Read the columns of a mirror schema from these events."""
        events = self.events.take(selected)
        return read_at_positions(
            self.io,
            self.files,
            events.file,
            events.row,
            self.ids,
            schema,
            self.shape.defaults,
            self.max_bytes,
        )


@dataclass(frozen=True)
class UnchangedValues:
    """Where to search for unchanged values.

    `files`: the mirror's, by ordinal of the index. `history`: the merged part of the changelog, None where the plan
    does not include it. `newest_expired_order`: that of the newest expired tombstone.
    """

    slice_events: EventHistory
    mirror_io: FileIO
    index: SearchableIndex
    files: tuple[ChangelogFile, ...]
    schema: Schema
    history: tuple[ChangelogFile, ...] | None
    newest_expired_order: tuple[int, ...] | None
    is_replay: bool

    def fill(self, winners: Changes, rows: pa.Table) -> pa.Table | HistoryNeeded:
        """Return the rows of these events with their unchanged values filled; ask for the history if it is needed.

        Raises `RowsExceedMemory` where these take more memory than they may, and there are several rows.
        """
        if len(winners) == 1 and self.slice_events.max_bytes is not None:
            return replace(self, slice_events=replace(self.slice_events, max_bytes=None)).fill(winners, rows)
        marker = self.slice_events.shape.unchanged_placeholder
        marked = self._kept_values(winners, rows)
        if not marked:
            return rows
        indices = np.flatnonzero(np.logical_or.reduce(list(marked.values())))
        indices = indices[winners.keys.take(indices).argsort()]
        incomplete = winners.take(indices)
        search = ValueSearch(
            self.schema, marker, incomplete.keys, {name: mask[indices] for name, mask in marked.items()}
        )
        ended = self._search(search, replace(self.slice_events, events=incomplete))
        if isinstance(ended, HistoryNeeded):
            return ended
        self._settle(search, incomplete, ended)
        return search.patch(rows, indices)

    def _kept_values(self, winners: Changes, rows: pa.Table) -> Mapping[str, Mask]:
        """Return by column which rows keep their previous value, for columns with at least one."""
        marker, keys = self.slice_events.shape.unchanged_placeholder, self._key_names
        marked = {} if marker is None else marked_values(rows, marker, keys)
        deletes = are_deletes(winners)
        if not self.slice_events.shape.keeps_deleted_rows or not deletes.any():
            return marked
        changelog_ids = set(self.slice_events.ids.values())
        names = [
            field.name
            for field in self.schema.fields
            if field.field_id in changelog_ids and field.name not in keys
        ]
        return {name: marked[name] | deletes if name in marked else deletes for name in names}

    @property
    def _key_names(self) -> set[str]:
        shape, ids = self.slice_events.shape, self.slice_events.ids
        return {self.schema.find_field(ids[key_id]).name for key_id in shape.key_ids}

    def _search(self, search: ValueSearch, winners: EventHistory) -> Mask | HistoryNeeded:
        """Search all sources; return the keys with a boundary in the events, before which nothing counts."""
        known = look_up_keys(self.index, search.keys, (0,) * (winners.shape.sequence.parts + 1))
        # A replay reads a range of the merged changelog; earlier events count as well.
        candidates = (
            self._read_merged_events(search.keys)
            if self.is_replay
            else self.slice_events.of_keys(search.keys)
        )
        candidates = self._drop_stale(candidates, search.keys, known)
        ended = self._search_events(search, candidates, skip_last=not self.is_replay)
        self._search_rows(search, known, ~ended)
        self._search_first_deletes(search, candidates, ~ended)
        if not (search.unresolved & ~ended).any() or self.is_replay:
            return ended
        if self.history is None:
            return HistoryNeeded("values are unchanged, but the mirror does not contain their rows")
        candidates = self._merged_and_slice_events(search.keys)
        owner = floor_indices(search.keys, candidates.events.keys)
        # Not by commit: compacting a changelog moves events to other commits.
        before = compare_orders(candidates.events.sequence, winners.events.sequence[owner]) <= 0
        candidates = candidates.take(before & ~ended[owner])
        ended |= self._search_events(search, candidates, skip_last=True)
        self._search_first_deletes(search, candidates, ~ended)
        return ended

    def _search_events(self, search: ValueSearch, candidates: EventHistory, *, skip_last: bool) -> Mask:
        if self.slice_events.shape.keeps_deleted_rows:
            candidates, skip_last = candidates.take(~are_deletes(candidates.events)), False
        return search.search_events(candidates.events, candidates.read, skip_last=skip_last)

    def _search_first_deletes(self, search: ValueSearch, candidates: EventHistory, allowed: Mask) -> None:
        """With soft deletes, take the values of a delete that is the first event of its key."""
        if not self.slice_events.shape.keeps_deleted_rows or not (search.unresolved & allowed).any():
            return
        order = order_of_events(candidates.events)
        owners, first = np.unique(
            floor_indices(search.keys, candidates.events.keys.take(order)), return_index=True
        )
        wanted = (search.unresolved & allowed)[owners] & are_deletes(candidates.events)[order[first]]
        if not wanted.any():
            return
        at = owners[wanted]
        search.take(at, candidates.read(order[first[wanted]], search.schema))
        filled = np.zeros(len(search.keys), dtype=np.bool_)
        filled[at] = True
        search.fill_with_nulls(filled)

    def _drop_stale(self, candidates: EventHistory, keys: Keys, known: KeyLookup) -> EventHistory:
        """Drop events older than the index entry of their key, or than a tombstone that may have expired."""
        owner, orders = floor_indices(keys, candidates.events.keys), candidates.orders
        compared = compare_orders(orders, known.orders[owner])
        newer = compared > 0 if self.is_replay else compared >= 0
        late = (
            np.zeros_like(newer)
            if self.newest_expired_order is None
            else ~exceeds(orders, self.newest_expired_order)
        )
        return candidates.take(np.where(known.file[owner] == ABSENT, ~late, newer))

    def _read_merged_events(self, keys: Keys) -> EventHistory:
        """Read the events of these keys in the merged part of the changelog."""
        base, parts = self.slice_events, [self.slice_events.events.take(np.empty(0, dtype=np.intp))]
        for ordinal, file in enumerate(self.history or ()):
            events = read_changes(base.io, file, ordinal, base.shape)
            parts.append(events.take(isin_sorted(events.keys, keys)))
        return replace(base, files=self.history or (), events=concat_changes(parts))

    def _merged_and_slice_events(self, keys: Keys) -> EventHistory:
        """Return the merged events of these keys, followed by those of the slice."""
        merged, slice_events = self._read_merged_events(keys), self.slice_events.of_keys(keys).events
        renumbered = replace(slice_events, file=slice_events.file + np.uint32(len(merged.files)))
        return replace(
            merged,
            files=(*merged.files, *self.slice_events.files),
            events=concat_changes([merged.events, renumbered]),
        )

    def _search_rows(self, search: ValueSearch, known: KeyLookup, allowed: Mask) -> None:
        at = np.flatnonzero(search.unresolved & allowed & (known.file >= 0))
        if not len(at):
            return
        file, row = known.file[at].astype(np.uint32), known.pos[at].astype(np.uint32)
        same = {target: target for target in self.slice_events.ids.values()}
        found = read_at_positions(
            self.mirror_io, self.files, file, row, same, search.schema, None, self.slice_events.max_bytes
        )
        search.take(at, found, accept_placeholders=True)

    def _settle(self, search: ValueSearch, winners: Changes, ended: Mask) -> None:
        """Set values that were not found to NULL, or raise `Invalid`."""
        at = np.flatnonzero(search.unresolved)
        if not len(at):
            return
        shape, first = self.slice_events.shape, int(at[0])
        name = search.unresolved_columns(first)[0]
        required = [field.name for field in search.schema.fields if field.required]
        if shape.null_for_unknown_value and not required:
            search.fill_with_nulls()
            return
        path = self.slice_events.files[int(winners.file[first])].path
        why = "its key was deleted or changed before" if ended[first] else "its key was never inserted"
        advice = (
            f"{name} cannot be NULL"
            if shape.null_for_unknown_value
            else "Set `on_missing_value: set-null` to write NULL, or have the source send the row again"
        )
        raise Invalid(
            f"{shape.changelog}: row {int(winners.row[first])} states that {name} has not changed, but {why}, so its "
            f"value is unknown. {advice}. Found in {path}"
        )


def marked_values(rows: pa.Table, marker: UnchangedPlaceholder, without: set[str]) -> Mapping[str, Mask]:
    """Return by column which rows mark their value as unchanged, for columns with at least one."""
    found = {name: marker.find(rows[name]) for name in rows.column_names if name not in without}
    return {name: mask for name, mask in found.items() if mask is not None}


def complete_row(history: EventHistory, row: pa.Table, schema: Schema) -> tuple[pa.Table, list[str]]:
    """Return the row of the last event of one key, filled from earlier events, and the columns that remain unknown."""
    marker = history.shape.unchanged_placeholder
    marked = {} if marker is None else marked_values(row, marker, set())
    if marker is None or not marked:
        return row, []
    search = ValueSearch(schema, marker, history.events.keys.take(np.zeros(1, dtype=np.intp)), marked)
    search.search_events(history.events, history.read, skip_last=True)
    return search.patch(row, np.zeros(1, dtype=np.intp)), search.unresolved_columns(0)
