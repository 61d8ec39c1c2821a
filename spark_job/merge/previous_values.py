"""Searches the events of each key, newest first, for the values of columns that did not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from spark_job.changelog.changes import NEW_KEY, Changes
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.read_rows import read_rows
from spark_job.changelog.shape import Operation
from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder
from spark_job.columns.field_map import FieldMap, field_ids
from spark_job.columns.missing_columns import MissingValues
from spark_job.index.keys import Indices, Keys, Mask, floor_indices
from spark_job.merge.collapse import order_of_events

_GROWTH = 4  # factor by which each step back reads more events

Read = Callable[[Indices, Schema], pa.Table]
"""Reads columns of the events at some indices."""


class ValueSearch:
    """The values to find for some keys, which are ascending, and the values found so far.

    `missing`: by column, the keys whose value is missing.
    """

    def __init__(
        self, mirror: Schema, marker: UnchangedPlaceholder | None, keys: Keys, missing: Mapping[str, Mask]
    ) -> None:
        self.keys = keys
        self._mirror, self._marker = mirror, marker
        self._unresolved = {name: mask.copy() for name, mask in missing.items()}
        self._found: dict[str, list[tuple[Indices, pa.ChunkedArray]]] = {name: [] for name in missing}

    @property
    def unresolved(self) -> Mask:
        """The keys with a missing value."""
        missing: Mask = np.logical_or.reduce(list(self._unresolved.values()))
        return missing

    @property
    def schema(self) -> Schema:
        """The columns with a missing value."""
        wanted = {name for name, mask in self._unresolved.items() if mask.any()}
        return Schema(*(field for field in self._mirror.fields if field.name in wanted))

    def unresolved_columns(self, at: int) -> list[str]:
        """Return the columns with a missing value of one key."""
        return [name for name, mask in self._unresolved.items() if mask[at]]

    def search_events(self, events: Changes, read: Read, *, skip_last: bool) -> Mask:
        """Search these events, sorted by (file, row), backwards.

        Returns the keys that have a boundary among them, a delete or a new key: no earlier event counts.
        """
        order = order_of_events(events)
        ordered = events.take(order)
        owner = floor_indices(self.keys, ordered.keys)
        all_keys = np.arange(len(self.keys))
        first = np.searchsorted(owner, all_keys, side="left")
        last = np.searchsorted(owner, all_keys, side="right") - 1
        boundaries = (ordered.operation == Operation.DELETE) | ordered.has_move(NEW_KEY)
        boundaries_before = np.concatenate([[0], np.cumsum(boundaries)])
        lowest = lowest_reachable(ordered, first[owner])
        earliest = np.where(last >= first, lowest[np.maximum(last, 0)] if len(ordered) else 0, last + 1)
        at, step = last - int(skip_last), 1
        while True:
            searched = np.flatnonzero(self.unresolved & (at >= earliest))
            if not len(searched):
                bounded: Mask = boundaries_before[last + 1] > boundaries_before[first]
                return bounded
            down_to = np.maximum(earliest[searched], at[searched] - step + 1)
            count = at[searched] - down_to + 1
            back = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            indices = np.repeat(at[searched], count) - back
            self.take(np.repeat(searched, count), read(order[indices], self.schema))
            at[searched] = down_to - 1
            step *= _GROWTH

    def take(self, key_index: Indices, values: pa.Table, *, accept_placeholders: bool = False) -> None:
        """Take missing values from these rows; `key_index`: the key of each row, newest first.

        `accept_placeholders`: also take values that are marked as unchanged.
        """
        for name in values.column_names:
            wanted = self._unresolved[name][key_index]
            marked = None if accept_placeholders or self._marker is None else self._marker.find(values[name])
            stated = np.flatnonzero(wanted if marked is None else wanted & ~marked)
            if len(stated):
                owners, newest = np.unique(key_index[stated], return_index=True)
                self._add(name, owners, values[name].take(pa.array(stated[newest])))

    def fill_with_nulls(self, keys: Mask | None = None) -> None:
        """Set missing values to NULL; with `keys`, only those keys, and only optional columns."""
        for name, mask in self._unresolved.items():
            if keys is not None and self._mirror.find_field(name).required:
                continue
            indices = np.flatnonzero(mask if keys is None else mask & keys)
            kind = self._found_type(name)
            self._add(name, indices, pa.chunked_array([pa.nulls(len(indices), kind)], kind))

    def patch(self, rows: pa.Table, row_of_key: Indices) -> pa.Table:
        """Return the rows with the found values; `row_of_key`: the row of each key."""
        for name, found in self._found.items():
            at = rows.column_names.index(name)
            rows = rows.set_column(at, rows.schema.field(at), _patched(rows[name], row_of_key, found))
        return rows

    def _add(self, name: str, owners: Indices, values: pa.ChunkedArray) -> None:
        self._found[name].append((owners, values))
        self._unresolved[name][owners] = False

    def _found_type(self, name: str) -> pa.DataType:
        return schema_to_pyarrow(self._mirror.find_type(name))


def lowest_reachable(ordered: Changes, first: Indices) -> Indices:
    """Return for each event the earliest event of its key, possibly itself, with no boundary in between."""
    position = np.arange(len(ordered))
    after = np.where(
        ordered.operation == Operation.DELETE, position + 1, np.where(ordered.has_move(NEW_KEY), position, 0)
    )
    found: Indices = np.maximum.accumulate(np.maximum(after, first))
    return found


def _patched(
    column: pa.ChunkedArray, row_of_key: Indices, found: Sequence[tuple[Indices, pa.ChunkedArray]]
) -> pa.ChunkedArray:
    pieces, taken, count = [*column.chunks], np.arange(len(column)), len(column)
    for owners, values in found:
        pieces += values.chunks
        taken[row_of_key[owners]] = count + np.arange(len(values))
        count += len(values)
    return pa.chunked_array(pieces, column.type).take(pa.array(taken))


def read_at_positions(
    io: FileIO,
    files: Sequence[ChangelogFile],
    file: NDArray[np.uint32],
    row: NDArray[np.uint32],
    ids: FieldMap,
    schema: Schema,
    defaults: MissingValues | None = None,
    max_bytes: int | None = None,
) -> pa.Table:
    """Read the columns of a schema at (file, row), in any order. Raises `RowsExceedMemory` as `read_rows` does."""
    order = np.lexsort((row, file))
    wanted = set(field_ids(schema.as_struct()))
    only = {source: target for source, target in ids.items() if target in wanted}
    found = read_rows(io, files, file[order], row[order], only, schema, defaults, max_bytes)
    original_order = np.empty(len(order), dtype=np.int64)
    original_order[order] = np.arange(len(order))
    return found.take(pa.array(original_order))
