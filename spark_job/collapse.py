"""Collapse: of all events of a key, only the greatest in the total order counts.

Only key, operation and sequence columns are read. The order is (sequence, changelog snapshot, file, position).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import MAKE_ANEW, Corrupt, Invalid
from spark_job.bulk import require_short
from spark_job.change_file import ChangeFile
from spark_job.key_index.keys import U64, Indices, Keys, Mask, concat_keys
from spark_job.key_index.orders import is_sorted
from spark_job.parquet_columns import check_ids, column_names, open_parquet, read_columns
from spark_job.shape import ChangelogShape, Operation


@dataclass(frozen=True, slots=True)
class Changes:
    """Events: their key, what they do, their order, and where in the slice they are (file ordinal, row)."""

    keys: Keys
    operation: NDArray[np.uint8]
    sequence: U64
    file: NDArray[np.uint32]
    row: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def places(self) -> U64:
        """Where each event stands in the slice, as one number that orders by (file, row)."""
        return (self.file.astype(np.uint64) << np.uint64(32)) | self.row

    def take(self, indices: Indices | Mask) -> Changes:
        """The events at these places."""
        return Changes(
            self.keys.take(indices),
            self.operation[indices],
            self.sequence[indices],
            self.file[indices],
            self.row[indices],
        )


def concat_changes(parts: Sequence[Changes]) -> Changes:
    """All parts, one after the other."""
    return Changes(
        concat_keys([part.keys for part in parts]),
        np.concatenate([part.operation for part in parts]),
        np.concatenate([part.sequence for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.row for part in parts]),
    )


def read_changes(io: FileIO, file: ChangeFile, ordinal: int, shape: ChangelogShape) -> Changes:
    """The narrow columns of one changelog file."""
    with open_parquet(io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_ids(parquet, file.path, shape.last_column_id)
        names = column_names(parquet, file.path)
        with _told(file, shape):
            require_short(io, file.path, parquet, [names[one] for one in shape.narrow_ids if one in names])
        columns = read_columns(parquet, file.path, shape.narrow_ids)
    with _told(file, shape):
        return as_changes(columns, file, ordinal, shape)


@contextmanager
def _told(file: ChangeFile, shape: ChangelogShape) -> Iterator[None]:
    """Says of a file that cannot be merged where it is, and what to do."""
    try:
        yield
    except Invalid as error:
        raise Invalid(
            f"{shape.changelog}: {error}. Roll the changelog back to the snapshot before {file.snapshot_id} and append "
            "these rows as they should be; then `icemirror resume`."
        ) from error


def as_changes(columns: list[pa.Array], file: ChangeFile, ordinal: int, shape: ChangelogShape) -> Changes:
    """Events of a file by their narrow columns, numbered from 0."""
    count = len(shape.key_ids)
    keys, operation, sequence = columns[:count], columns[count], columns[count + 1 :]
    for key in keys:
        if key.null_count:
            row = int(np.flatnonzero(key.is_null().to_numpy(zero_copy_only=False))[0])
            raise Invalid(
                f"{file.path}: the key is NULL in row {row}: an event without a key cannot be merged"
            )
    codes = shape.codec.encode(keys)
    if not shape.codec.lossless:
        _refuse_collisions(codes, keys, file.path)
    rows = len(operation)
    return Changes(
        keys=codes,
        operation=_operations(operation, shape, file.path),
        sequence=shape.sequence.encode(sequence, file.path),
        file=np.full(rows, ordinal, dtype=np.uint32),
        row=np.arange(rows, dtype=np.uint32),
    )


def _refuse_collisions(codes: Keys, keys: Sequence[pa.Array], path: str) -> None:
    """Of two keys with one hash, one would be taken for an older event of the other."""
    one, other = equal_codes(codes)
    differ = np.flatnonzero(~equal_values(keys, one, other))
    if len(differ):
        raise Corrupt(
            f"{path}: rows {int(one[differ[0]])} and {int(other[differ[0]])} have different keys with the same hash; "
            f"nothing was committed. Another mirror hashes them otherwise: {MAKE_ANEW}."
        )


def equal_codes(codes: Keys) -> tuple[Indices, Indices]:
    """Pairs of places with equal codes, which link all places of a code."""
    order = np.argsort(codes.lo if codes.hi is None else codes.hi)
    same = np.flatnonzero(codes.take(order).same_as_next())
    return order[same], order[same + 1]


def equal_values(columns: Sequence[pa.Array], one: Indices, other: Indices) -> Mask:
    """Whether the rows `one` and `other` have equal values in all columns, pair by pair."""
    same = np.ones(len(one), dtype=np.bool_)
    for column in columns:
        equal = pc.equal(column.take(pa.array(one)), column.take(pa.array(other)))
        same &= equal.to_numpy(zero_copy_only=False)
    return same


def _operations(column: pa.Array, shape: ChangelogShape, path: str) -> NDArray[np.uint8]:
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    indices: NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
    codes = np.empty(len(encoded.dictionary), dtype=np.uint8)
    for at, value in enumerate(encoded.dictionary.to_pylist()):
        operation: Operation | None = shape.operations.get(value)
        if operation is None:
            known = ", ".join(sorted(shape.operations))
            row = int(np.flatnonzero(indices == at)[0])
            what = "NULL" if value is None else repr(value)
            add = "add it to operation_values, then `icemirror resume`; if not, the row is wrong"
            advice = "" if value is None else f". If it means one of these, {add}"
            raise Invalid(f"{path}: unknown operation {what} in row {row}; known are {known}{advice}")
        codes[at] = operation
    return codes[indices]


def collapse_changes(changes: Changes) -> Changes:
    """The greatest event of each key, ascending by key. Events must stand in the order (file, row)."""
    if not len(changes):
        return changes
    order = order_of_events(changes)
    last = np.append(~changes.keys.take(order).same_as_next(), True)
    return changes.take(order[last])


def order_of_events(changes: Changes) -> Indices:
    """The places of the events by key and sequence. Events must stand in the order (file, row): equals stay so."""
    if is_sorted(changes.sequence):
        return changes.keys.argsort()
    parts = [changes.sequence[:, part] for part in reversed(range(changes.sequence.shape[1]))]
    key_parts = [changes.keys.lo] if changes.keys.hi is None else [changes.keys.lo, changes.keys.hi]
    return np.lexsort([*parts, *key_parts])


def in_order(changes: Changes) -> Changes:
    """The events in the order (file, row)."""
    place = changes.places
    if bool((place[1:] >= place[:-1]).all()):
        return changes
    return changes.take(np.argsort(place, kind="stable"))
