"""Change events before they become rows: which key, which revision of its row, what happened, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from icemirror.cli.demo.oracle.subject import OPERATION_COLUMN, SEQUENCE_COLUMN, Subject

Ints = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]
INSERT, UPDATE, DELETE = range(3)
OPERATIONS = ("INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True)
class Events:
    """Columns of equal length, one entry an event. The row's values follow from key and revision alone."""

    key: Ints
    revision: Ints
    operation: Ints
    lsn: Unsigned
    ordinal: Unsigned

    def __len__(self) -> int:
        return len(self.key)

    def take(self, picked: Ints | npt.NDArray[np.bool_]) -> Events:
        """The events at these positions, or under this mask."""
        return Events(*(getattr(self, field.name)[picked] for field in fields(self)))

    @staticmethod
    def concat(parts: Sequence[Events]) -> Events:
        """All events, one part after the other."""
        parts = [Events.none(), *parts]
        columns = ([getattr(part, field.name) for part in parts] for field in fields(Events))
        return Events(*(np.concatenate(column) for column in columns))

    @staticmethod
    def none() -> Events:
        """No events."""
        ints, unsigned = np.empty(0, np.int64), np.empty(0, np.uint64)
        return Events(ints, ints, ints, unsigned, unsigned)


@dataclass(frozen=True)
class Shape:
    """A changelog's schema, and its rows as a function of keys and revisions."""

    subject: Subject
    schema: Schema
    rows: Callable[[Ints, Ints], Mapping[str, Any]]

    def to_arrow(self, events: Events) -> pa.Table:
        """The events as changelog rows, typed as the changelog's files are."""
        columns = dict(self.rows(events.key, events.revision))
        columns[OPERATION_COLUMN] = pa.array(OPERATIONS).take(pa.array(events.operation))
        columns[SEQUENCE_COLUMN] = pa.array(format_sequences(events.lsn, events.ordinal))
        file_schema = schema_to_pyarrow(self.schema)
        return pa.Table.from_arrays(
            [_as_type(columns[field.name], field.type) for field in file_schema], schema=file_schema
        )


def format_sequences(lsn: Unsigned, ordinal: Unsigned) -> list[str]:
    """`{commit_lsn:016x}/{tx_ordinal:016x}`: text order is the order of events."""
    if not lsn.any() and not ordinal.any():
        return [f"{0:016x}/{0:016x}"] * len(lsn)  # an initial copy
    return [f"{one:016x}/{other:016x}" for one, other in zip(lsn.tolist(), ordinal.tolist(), strict=True)]


def scramble(*parts: Ints | int) -> Unsigned:
    """Evenly spread 64 bits from integers (splitmix64): the same for the same input, on every machine."""
    with np.errstate(over="ignore"):
        mixed = np.zeros(1, np.uint64)
        for part in parts:
            mixed = mixed + np.asarray(part, np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed


def _as_type(array: Any, expected: Any) -> Any:  # noqa: ANN401  (pyarrow ships no types)
    return array if array.type == expected else array.cast(expected)
