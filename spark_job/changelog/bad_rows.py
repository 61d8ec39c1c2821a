"""Changelog rows that cannot be merged: the reasons, and how to convert the other rows without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol, Self, TypeVar

import numpy as np

from icemirror.errors import Invalid
from spark_job.index.keys import Indices, Mask

Converted = TypeVar("Converted")


class Filterable(Protocol):
    """Columns of some rows."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def filter(self, kept: Mask) -> Self:
        """Return the rows where `kept` is true."""


Rows = TypeVar("Rows", bound=Filterable)


class RejectReason(StrEnum):
    """Why a row cannot be merged. The rejects table stores these values; append new ones at the end."""

    NULL_KEY = "null-key"
    NULL_OPERATION = "null-operation"
    UNKNOWN_OPERATION = "unknown-operation"
    NULL_SEQUENCE = "null-sequence"
    UNREADABLE_SEQUENCE = "unreadable-sequence"

    @property
    def description(self) -> str:
        """Return a text for users, without values of the row."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    RejectReason.NULL_KEY: "a column of the key is NULL: an event without a key belongs to no row",
    RejectReason.NULL_OPERATION: "the operation is NULL",
    RejectReason.UNKNOWN_OPERATION: "the operation is none of operation_values",
    RejectReason.NULL_SEQUENCE: "a sequence column is NULL: the event has no place in the order",
    RejectReason.UNREADABLE_SEQUENCE: "the sequence does not match sequence_format",
}


class BadRows(Invalid):
    """Some rows cannot be merged: the numbers of all rows that failed one check. The message describes the first."""

    def __init__(self, message: str, reason: RejectReason, rows: Indices) -> None:
        super().__init__(message)
        self.reason = reason
        self.rows = rows


RowsByReason = Sequence[tuple[RejectReason, Indices]]
"""Numbers of bad rows by reason; each row once."""


def row_numbers(wrong: Mask) -> Indices:
    """Return the numbers of the rows where `wrong` is true."""
    return np.flatnonzero(wrong)


def convert_good_rows(
    columns: Rows, convert: Callable[[Rows], Converted]
) -> tuple[Converted, Indices | None, RowsByReason]:
    """Return what `convert` makes of the good rows, their numbers (None: all rows), and the bad rows.

    If `convert` raises `BadRows`, it is called again without these rows, once per check that fails.
    """
    kept: Indices | None = None
    bad: list[tuple[RejectReason, Indices]] = []
    while True:
        try:
            return convert(columns), kept, bad
        except BadRows as found:
            rows = np.arange(len(columns)) if kept is None else kept
            good = np.ones(len(rows), dtype=np.bool_)
            good[found.rows] = False
            if good.all():
                raise
            bad.append((found.reason, rows[found.rows]))
            kept = rows[good]
            columns = columns.filter(good)
