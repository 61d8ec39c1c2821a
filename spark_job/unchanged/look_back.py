"""Looks for values back through the events of each key, the newest first, as far as they have to be known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import CAME, Changes
from spark_job.changelog.marker import Marker
from spark_job.changelog.shape import Operation
from spark_job.changelog.source_rows import read_rows
from spark_job.collapse import order_of_events
from spark_job.columns.absent import Absent
from spark_job.columns.field_map import FieldMap, field_ids
from spark_job.key_index.keys import Indices, Keys, Mask, last_not_above

_GROWTH = 4  # so many times more events of a key are read at each step back

Read = Callable[[Indices, Schema], pa.Table]
"""Some events by their places, and the columns that are wanted of them."""


class LookBack:
    """The values that are to be found for some keys, which are ascending, and those that were found.

    `marked`: by column, the keys whose value is looked for.
    """

    def __init__(self, mirror: Schema, marker: Marker | None, keys: Keys, marked: Mapping[str, Mask]) -> None:
        self.keys = keys
        self._mirror, self._marker = mirror, marker
        self._open = {name: mask.copy() for name, mask in marked.items()}
        self._found: dict[str, list[tuple[Indices, pa.ChunkedArray]]] = {name: [] for name in marked}

    @property
    def unsettled(self) -> Mask:
        """The keys of which a value is still missing."""
        missing: Mask = np.logical_or.reduce(list(self._open.values()))
        return missing

    @property
    def schema(self) -> Schema:
        """The columns of which a value is still missing."""
        wanted = {name for name, mask in self._open.items() if mask.any()}
        return Schema(*(field for field in self._mirror.fields if field.name in wanted))

    def open_columns(self, at: int) -> list[str]:
        """Those of one key."""
        return [name for name, mask in self._open.items() if mask[at]]

    def ask_events(self, events: Changes, read: Read, *, skip_last: bool) -> Mask:
        """Goes back through these events, which stand in the order (file, row).

        Gives the keys that have an end among them: nothing before it counts.
        """
        order = order_of_events(events)
        told = events.take(order)
        owner = last_not_above(self.keys, told.keys)
        every = np.arange(len(self.keys))
        first = np.searchsorted(owner, every, side="left")
        last = np.searchsorted(owner, every, side="right") - 1
        ends = (told.operation == Operation.DELETE) | told.are(CAME)
        ended = np.concatenate([[0], np.cumsum(ends)])
        lowest = lowest_reachable(told, first[owner])
        least = np.where(last >= first, lowest[np.maximum(last, 0)] if len(told) else 0, last + 1)
        at, step = last - int(skip_last), 1
        while True:
            some = np.flatnonzero(self.unsettled & (at >= least))
            if not len(some):
                found: Mask = ended[last + 1] > ended[first]
                return found
            down_to = np.maximum(least[some], at[some] - step + 1)
            count = at[some] - down_to + 1
            back = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            places = np.repeat(at[some], count) - back
            self.take(np.repeat(some, count), read(order[places], self.schema))
            at[some] = down_to - 1
            step *= _GROWTH

    def take(self, of: Indices, values: pa.Table, *, last: bool = False) -> None:
        """Takes the values that were missing; `of`: the key of each row, the newest first.

        `last`: these are the values, whatever they are.
        """
        for name in values.column_names:
            wanted = self._open[name][of]
            marked = None if last or self._marker is None else self._marker.marks(values[name])
            told = np.flatnonzero(wanted if marked is None else wanted & ~marked)
            if len(told):
                owners, newest = np.unique(of[told], return_index=True)
                self._note(name, owners, values[name].take(pa.array(told[newest])))

    def settle_with_nulls(self, of: Mask | None = None) -> None:
        """What is missing is NULL; of some keys only where it may be."""
        for name, mask in self._open.items():
            if of is not None and self._mirror.find_field(name).required:
                continue
            places = np.flatnonzero(mask if of is None else mask & of)
            kind = self._found_type(name)
            self._note(name, places, pa.chunked_array([pa.nulls(len(places), kind)], kind))

    def patch(self, rows: pa.Table, places: Indices) -> pa.Table:
        """The rows with what was found; `places`: where in them the keys are."""
        for name, found in self._found.items():
            at = rows.column_names.index(name)
            rows = rows.set_column(at, rows.schema.field(at), _patched(rows[name], places, found))
        return rows

    def _note(self, name: str, owners: Indices, values: pa.ChunkedArray) -> None:
        self._found[name].append((owners, values))
        self._open[name][owners] = False

    def _found_type(self, name: str) -> pa.DataType:
        return schema_to_pyarrow(self._mirror.find_type(name))


def lowest_reachable(told: Changes, first: Indices) -> Indices:
    """For each event: the earliest of its key, itself included, that nothing separates from it."""
    place = np.arange(len(told))
    after = np.where(told.operation == Operation.DELETE, place + 1, np.where(told.are(CAME), place, 0))
    found: Indices = np.maximum.accumulate(np.maximum(after, first))
    return found


def _patched(
    column: pa.ChunkedArray, places: Indices, found: Sequence[tuple[Indices, pa.ChunkedArray]]
) -> pa.ChunkedArray:
    pieces, taken, count = [*column.chunks], np.arange(len(column)), len(column)
    for owners, values in found:
        pieces += values.chunks
        taken[places[owners]] = count + np.arange(len(values))
        count += len(values)
    return pa.chunked_array(pieces, column.type).take(pa.array(taken))


def read_at_places(
    io: FileIO,
    files: Sequence[ChangeFile],
    file: NDArray[np.uint32],
    row: NDArray[np.uint32],
    ids: FieldMap,
    schema: Schema,
    defaults: Absent | None = None,
    most_bytes: int | None = None,
) -> pa.Table:
    """The columns of a schema at (file, row), in any order. Raises `TooMuch` as `read_rows` does."""
    order = np.lexsort((row, file))
    wanted = set(field_ids(schema.as_struct()))
    only = {source: target for source, target in ids.items() if target in wanted}
    found = read_rows(io, files, file[order], row[order], only, schema, defaults, most_bytes)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return found.take(pa.array(place))
