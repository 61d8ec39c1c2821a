"""Searches the events of each key, newest first, for values that later events leave unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from spark_job.changelog.event_batch import NEW_KEY_UPSERT, EventBatch
from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder
from spark_job.columns.arrays import Indices, Mask
from spark_job.index.keys import Keys, floor_indices
from spark_job.merge.collapse import argsort_events

_GROWTH = 4  # factor by which each step back reads more events

ReadColumns = Callable[[Indices, Schema], pa.Table]
"""Returns columns of the events at some indices."""


class ValueSearch:
    """The values to find for some keys, which are ascending, and the values found so far.

    `missing`: by column, the keys whose value is missing.
    """

    def __init__(
        self,
        mirror_schema: Schema,
        placeholder: UnchangedPlaceholder | None,
        keys: Keys,
        missing: Mapping[str, Mask],
    ) -> None:
        self.keys = keys
        self._mirror_schema, self._placeholder = mirror_schema, placeholder
        self._unresolved = {name: mask.copy() for name, mask in missing.items()}
        self._found_values: dict[str, list[tuple[Indices, pa.ChunkedArray]]] = {name: [] for name in missing}

    @property
    def unresolved(self) -> Mask:
        """The keys with a missing value."""
        missing: Mask = np.logical_or.reduce(list(self._unresolved.values()))
        return missing

    @property
    def schema(self) -> Schema:
        """The columns with a missing value."""
        names = {name for name, mask in self._unresolved.items() if mask.any()}
        return Schema(*(field for field in self._mirror_schema.fields if field.name in names))

    def unresolved_columns(self, key_index: int) -> list[str]:
        """Return the columns with a missing value of one key."""
        return [name for name, mask in self._unresolved.items() if mask[key_index]]

    def search_events(self, events: EventBatch, read: ReadColumns, *, skip_last: bool) -> Mask:
        """Search these events, sorted by (file, row), backwards.

        Return which keys have a boundary among the events, a delete or a new key: no earlier event counts.
        """
        order = argsort_events(events)
        ordered = events.take(order)
        key_index = floor_indices(self.keys, ordered.keys)
        all_keys = np.arange(len(self.keys))
        # The first and the last event of each key.
        first = np.searchsorted(key_index, all_keys, side="left")
        last = np.searchsorted(key_index, all_keys, side="right") - 1
        boundaries = ordered.is_delete | ordered.has_flag(NEW_KEY_UPSERT)
        boundaries_before = np.concatenate([[0], np.cumsum(boundaries)])
        lowest = lowest_reachable(ordered, first[key_index])
        earliest = np.where(last >= first, lowest[np.maximum(last, 0)] if len(ordered) else 0, last + 1)
        # The next event of each key to search, and how many events of a key are read at once.
        position, step = last - int(skip_last), 1
        while True:
            searched = np.flatnonzero(self.unresolved & (position >= earliest))
            if not len(searched):
                has_boundary: Mask = boundaries_before[last + 1] > boundaries_before[first]
                return has_boundary
            down_to = np.maximum(earliest[searched], position[searched] - step + 1)
            count = position[searched] - down_to + 1
            steps_back = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            indices = np.repeat(position[searched], count) - steps_back
            self.add_values(np.repeat(searched, count), read(order[indices], self.schema))
            position[searched] = down_to - 1
            step *= _GROWTH

    def add_values(self, key_index: Indices, rows: pa.Table, *, accept_placeholders: bool = False) -> None:
        """Add missing values from these rows; `key_index`: the key of each row, newest first.

        `accept_placeholders`: also add values that are placeholders for unchanged ones.
        """
        placeholder = None if accept_placeholders else self._placeholder
        for name in rows.column_names:
            is_missing = self._unresolved[name][key_index]
            is_placeholder = None if placeholder is None else placeholder.find(rows[name])
            has_value = np.flatnonzero(is_missing if is_placeholder is None else is_missing & ~is_placeholder)
            if len(has_value):
                key_indices, newest = np.unique(key_index[has_value], return_index=True)
                self._add(name, key_indices, rows[name].take(pa.array(has_value[newest])))

    def fill_with_nulls(self, keys: Mask | None = None) -> None:
        """Set missing values to NULL; with `keys`, only those keys, and only optional columns."""
        for name, mask in self._unresolved.items():
            if keys is not None and self._mirror_schema.find_field(name).required:
                continue
            indices = np.flatnonzero(mask if keys is None else mask & keys)
            arrow_type = schema_to_pyarrow(self._mirror_schema.find_type(name))
            self._add(name, indices, pa.chunked_array([pa.nulls(len(indices), arrow_type)], arrow_type))

    def patch(self, rows: pa.Table, row_of_key: Indices) -> pa.Table:
        """Return the rows with the found values; `row_of_key`: the row of each key."""
        for name, found_values in self._found_values.items():
            column_index = rows.column_names.index(name)
            column = _patch_column(rows[name], row_of_key, found_values)
            rows = rows.set_column(column_index, rows.schema.field(column_index), column)
        return rows

    def _add(self, name: str, key_indices: Indices, values: pa.ChunkedArray) -> None:
        self._found_values[name].append((key_indices, values))
        self._unresolved[name][key_indices] = False


def lowest_reachable(ordered: EventBatch, first: Indices) -> Indices:
    """Return for each event the earliest event of its key, possibly itself, with no boundary in between."""
    position = np.arange(len(ordered))
    # A delete cuts off itself and all before it, a new key only what is before it.
    lowest = np.where(ordered.has_flag(NEW_KEY_UPSERT), position, 0)
    lowest = np.where(ordered.is_delete, position + 1, lowest)
    reachable: Indices = np.maximum.accumulate(np.maximum(lowest, first))
    return reachable


def _patch_column(
    column: pa.ChunkedArray, row_of_key: Indices, found_values: Sequence[tuple[Indices, pa.ChunkedArray]]
) -> pa.ChunkedArray:
    # Found values are appended to the column, and then selected in place of the missing ones.
    chunks, selection, count = [*column.chunks], np.arange(len(column)), len(column)
    for key_indices, values in found_values:
        chunks += values.chunks
        selection[row_of_key[key_indices]] = count + np.arange(len(values))
        count += len(values)
    return pa.chunked_array(chunks, column.type).take(pa.array(selection))
