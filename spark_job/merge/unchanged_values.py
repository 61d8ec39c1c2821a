"""Fills the values that an event does not contain, because they did not change.

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
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import EventBatch, concat_events, event_orders
from spark_job.changelog.read_events import read_events
from spark_job.changelog.read_rows import read_at_positions
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder
from spark_job.columns.arrays import U64, Indices, Mask
from spark_job.columns.field_map import FieldMap
from spark_job.index.keys import Keys, floor_indices, isin_sorted
from spark_job.index.orders import compare_orders, is_greater
from spark_job.merge.collapse import argsort_events
from spark_job.merge.indexed_files import MirrorRowFile
from spark_job.merge.locate import ABSENT, KeyEntries, SearchableIndex, read_key_entries
from spark_job.merge.shard_result import HistoryNeeded
from spark_job.merge.value_search import ValueSearch


@dataclass(frozen=True)
class ReadableEvents:
    """Events and the files that contain them. `max_bytes`: limit of one read of several rows."""

    io: FileIO
    files: Sequence[ChangelogFile]
    shape: ChangelogShape
    field_map: FieldMap
    events: EventBatch
    max_bytes: int | None = None

    @property
    def orders(self) -> U64:
        """The order of each event: sequence and changelog snapshot."""
        return event_orders(self.events, self.files)

    def take(self, selected: Mask) -> ReadableEvents:
        """Return the selected events."""
        return replace(self, events=self.events.take(selected))

    def select_keys(self, keys: Keys) -> ReadableEvents:
        """Return the events of some keys, which must be ascending."""
        return self.take(isin_sorted(self.events.keys, keys))

    def read(self, indices: Indices, schema: Schema) -> pa.Table:
        """Return the columns of a mirror schema from the events at these indices."""
        events = self.events.take(indices)
        return read_at_positions(
            self.io,
            self.files,
            events.file,
            events.row,
            self.field_map,
            schema,
            self.shape.defaults,
            self.max_bytes,
        )


@dataclass(frozen=True)
class UnchangedValues:
    """Where to search for unchanged values.

    `indexed_files`: the mirror's files, by ordinal of the index. `history`: the merged part of the changelog, None if
    the plan does not include it. A *boundary* of a key is an event before which no value counts, such as a delete.
    """

    slice_events: ReadableEvents
    mirror_io: FileIO
    index: SearchableIndex
    indexed_files: tuple[MirrorRowFile, ...]
    schema: Schema
    history: tuple[ChangelogFile, ...] | None
    newest_expired_tombstone_order: tuple[int, ...] | None
    is_replay: bool

    def fill(self, winners: EventBatch, rows: pa.Table) -> pa.Table | HistoryNeeded:
        """Return the rows of these events with their unchanged values; `HistoryNeeded` if only the history has them.

        Raise `RowsExceedMemory` if several rows take more memory than they may.
        """
        # One row cannot be split: no limit.
        if len(winners) == 1 and self.slice_events.max_bytes is not None:
            return replace(self, slice_events=replace(self.slice_events, max_bytes=None)).fill(winners, rows)
        missing = self._find_missing_values(winners, rows)
        if not missing:
            return rows
        indices = np.flatnonzero(np.logical_or.reduce(list(missing.values())))
        indices = indices[winners.keys.take(indices).argsort()]
        incomplete = winners.take(indices)
        search = ValueSearch(
            self.schema,
            self.slice_events.shape.unchanged_placeholder,
            incomplete.keys,
            {name: mask[indices] for name, mask in missing.items()},
        )
        has_boundary = self._search(search, replace(self.slice_events, events=incomplete))
        if isinstance(has_boundary, HistoryNeeded):
            return has_boundary
        self._resolve_unknown_values(search, incomplete, has_boundary)
        return search.patch(rows, indices)

    def _find_missing_values(self, winners: EventBatch, rows: pa.Table) -> Mapping[str, Mask]:
        """Return by column which rows keep their previous value, for columns with at least one."""
        placeholder, key_names = self.slice_events.shape.unchanged_placeholder, self._key_names
        missing = {} if placeholder is None else find_placeholders(rows, placeholder, key_names)
        is_delete = winners.is_delete
        if not self.slice_events.shape.keeps_deleted_rows or not is_delete.any():
            return missing
        changelog_ids = set(self.slice_events.field_map.values())
        names = [
            field.name
            for field in self.schema.fields
            if field.field_id in changelog_ids and field.name not in key_names
        ]
        return {name: missing[name] | is_delete if name in missing else is_delete for name in names}

    @property
    def _key_names(self) -> set[str]:
        shape, field_map = self.slice_events.shape, self.slice_events.field_map
        return {self.schema.find_field(field_map[key_id]).name for key_id in shape.key_ids}

    def _search(self, search: ValueSearch, winners: ReadableEvents) -> Mask | HistoryNeeded:
        """Search all sources; return which keys have a boundary in the events, before which nothing counts."""
        entries = read_key_entries(self.index, search.keys, (0,) * (winners.shape.sequence.parts + 1))
        # A replay reads a range of the merged changelog; earlier events count as well.
        candidates = (
            self._read_merged_events(search.keys)
            if self.is_replay
            else self.slice_events.select_keys(search.keys)
        )
        candidates = self._drop_stale(candidates, search.keys, entries)
        has_boundary = self._search_events(search, candidates, skip_last=not self.is_replay)
        self._search_rows(search, entries, ~has_boundary)
        self._search_first_deletes(search, candidates, ~has_boundary)
        if not (search.unresolved & ~has_boundary).any() or self.is_replay:
            return has_boundary
        if self.history is None:
            return HistoryNeeded("values are unchanged, but the mirror does not contain their rows")
        candidates = self._merged_and_slice_events(search.keys)
        key_index = floor_indices(search.keys, candidates.events.keys)
        # Not by commit: compacting a changelog moves events to other commits.
        is_earlier = compare_orders(candidates.events.sequence, winners.events.sequence[key_index]) <= 0
        candidates = candidates.take(is_earlier & ~has_boundary[key_index])
        has_boundary |= self._search_events(search, candidates, skip_last=True)
        self._search_first_deletes(search, candidates, ~has_boundary)
        return has_boundary

    def _search_events(self, search: ValueSearch, candidates: ReadableEvents, *, skip_last: bool) -> Mask:
        if self.slice_events.shape.keeps_deleted_rows:
            candidates, skip_last = candidates.take(~candidates.events.is_delete), False
        return search.search_events(candidates.events, candidates.read, skip_last=skip_last)

    def _search_first_deletes(self, search: ValueSearch, candidates: ReadableEvents, allowed: Mask) -> None:
        """With soft deletes, use the values of a delete that is the first event of its key."""
        if not self.slice_events.shape.keeps_deleted_rows or not (search.unresolved & allowed).any():
            return
        order = argsort_events(candidates.events)
        key_indices, first = np.unique(
            floor_indices(search.keys, candidates.events.keys.take(order)), return_index=True
        )
        first_events = order[first]
        is_used = (search.unresolved & allowed)[key_indices] & candidates.events.is_delete[first_events]
        if not is_used.any():
            return
        filled_keys = key_indices[is_used]
        search.add_values(filled_keys, candidates.read(first_events[is_used], search.schema))
        is_filled = np.zeros(len(search.keys), dtype=np.bool_)
        is_filled[filled_keys] = True
        search.fill_with_nulls(is_filled)

    def _drop_stale(self, candidates: ReadableEvents, keys: Keys, entries: KeyEntries) -> ReadableEvents:
        """Return the events that are newer than the index entry of their key, or than expired tombstones."""
        key_index, orders = floor_indices(keys, candidates.events.keys), candidates.orders
        comparison = compare_orders(orders, entries.orders[key_index])
        is_newer = comparison > 0 if self.is_replay else comparison >= 0
        may_be_late = (
            np.zeros_like(is_newer)
            if self.newest_expired_tombstone_order is None
            else ~is_greater(orders, self.newest_expired_tombstone_order)
        )
        return candidates.take(np.where(entries.file[key_index] == ABSENT, ~may_be_late, is_newer))

    def _read_merged_events(self, keys: Keys) -> ReadableEvents:
        """Return the events of these keys in the merged part of the changelog."""
        base, batches = self.slice_events, [self.slice_events.events.take(np.empty(0, dtype=np.intp))]
        for ordinal, file in enumerate(self.history or ()):
            events = read_events(base.io, file, ordinal, base.shape)
            batches.append(events.take(isin_sorted(events.keys, keys)))
        return replace(base, files=self.history or (), events=concat_events(batches))

    def _merged_and_slice_events(self, keys: Keys) -> ReadableEvents:
        """Return the merged events of these keys, followed by those of the slice."""
        merged, slice_events = self._read_merged_events(keys), self.slice_events.select_keys(keys).events
        renumbered = replace(slice_events, file=slice_events.file + np.uint32(len(merged.files)))
        return replace(
            merged,
            files=(*merged.files, *self.slice_events.files),
            events=concat_events([merged.events, renumbered]),
        )

    def _search_rows(self, search: ValueSearch, entries: KeyEntries, allowed: Mask) -> None:
        """Use the values of the mirror's rows."""
        key_index = np.flatnonzero(search.unresolved & allowed & (entries.file >= 0))
        if not len(key_index):
            return
        rows = read_at_positions(
            self.mirror_io,
            self.indexed_files,
            entries.file[key_index].astype(np.uint32),
            entries.pos[key_index].astype(np.uint32),
            {field_id: field_id for field_id in self.slice_events.field_map.values()},
            search.schema,
            None,
            self.slice_events.max_bytes,
        )
        search.add_values(key_index, rows, accept_placeholders=True)

    def _resolve_unknown_values(self, search: ValueSearch, winners: EventBatch, has_boundary: Mask) -> None:
        """Set values that were not found to NULL, or raise `Invalid`."""
        key_index = np.flatnonzero(search.unresolved)
        if not len(key_index):
            return
        shape, first = self.slice_events.shape, int(key_index[0])
        name = search.unresolved_columns(first)[0]
        required = [field.name for field in search.schema.fields if field.required]
        if shape.null_for_unknown_value and not required:
            search.fill_with_nulls()
            return
        path = self.slice_events.files[int(winners.file[first])].path
        cause = (
            "its key was deleted or changed before" if has_boundary[first] else "its key was never inserted"
        )
        advice = (
            f"{name} cannot be NULL"
            if shape.null_for_unknown_value
            else "Set `on_missing_value: set-null` to write NULL, or have the source send the row again"
        )
        raise Invalid(
            f"{shape.changelog_name}: row {int(winners.row[first])} states that {name} has not changed, but {cause}, "
            f"so its value is unknown. {advice}. Found in {path}"
        )


def find_placeholders(
    rows: pa.Table, placeholder: UnchangedPlaceholder, key_names: set[str]
) -> Mapping[str, Mask]:
    """Return by column which values are placeholders, for columns with at least one. Keys have none."""
    masks = {name: placeholder.find(rows[name]) for name in rows.column_names if name not in key_names}
    return {name: mask for name, mask in masks.items() if mask is not None}


def complete_row(key_events: ReadableEvents, row: pa.Table, schema: Schema) -> tuple[pa.Table, list[str]]:
    """Return the row of the last event of one key, filled from earlier events, and the columns that remain unknown."""
    placeholder = key_events.shape.unchanged_placeholder
    missing = {} if placeholder is None else find_placeholders(row, placeholder, set())
    if placeholder is None or not missing:
        return row, []
    first = np.zeros(1, dtype=np.intp)
    search = ValueSearch(schema, placeholder, key_events.events.keys.take(first), missing)
    search.search_events(key_events.events, key_events.read, skip_last=True)
    return search.patch(row, first), search.unresolved_columns(0)
