"""Rows of a changelog that cannot be merged: why, and how they are sorted out where they are not to stop the merge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol, Self, TypeVar

import numpy as np

from icemirror.errors import Invalid
from spark_job.key_index.keys import Indices, Mask

Converted = TypeVar("Converted")


class Columns(Protocol):
    """Columns of some rows."""

    def __len__(self) -> int:
        """How many rows."""

    def filter(self, kept: Mask) -> Self:
        """Some of the rows."""


Given = TypeVar("Given", bound=Columns)


class Reason(StrEnum):
    """Why a row cannot be merged; the names are those of the rejects table. New ones go to the end."""

    NULL_KEY = "null-key"
    NULL_OPERATION = "null-operation"
    UNKNOWN_OPERATION = "unknown-operation"
    NULL_SEQUENCE = "null-sequence"
    UNREADABLE_SEQUENCE = "unreadable-sequence"

    @property
    def words(self) -> str:
        """For people, and without values: those are in the row itself."""
        return _WORDS[self]


_WORDS = {
    Reason.NULL_KEY: "a column of the key is NULL: an event without a key belongs to no row",
    Reason.NULL_OPERATION: "the operation is NULL",
    Reason.UNKNOWN_OPERATION: "the operation is none of operation_values",
    Reason.NULL_SEQUENCE: "a sequence column is NULL: the event has no place in the order",
    Reason.UNREADABLE_SEQUENCE: "the sequence is not of the form that its column must have",
}


class BadRows(Invalid):
    """Some rows cannot be merged: all that one check found, by their numbers. The message tells of the first."""

    def __init__(self, message: str, reason: Reason, rows: Indices) -> None:
        super().__init__(message)
        self.reason = reason
        self.rows = rows


Bad = Sequence[tuple[Reason, Indices]]
"""The numbers of bad rows by reason; each row once."""


def rows_where(wrong: Mask) -> Indices:
    """The numbers of the rows that a check found."""
    return np.flatnonzero(wrong)


def sift(columns: Given, convert: Callable[[Given], Converted]) -> tuple[Converted, Indices | None, Bad]:
    """What `convert` makes of the rows that it takes, their numbers (None: all of them), and the others.

    It is asked once where all are good. Else it is asked again without the rows that a check found, as often as there
    are checks that find some.
    """
    kept: Indices | None = None
    bad: list[tuple[Reason, Indices]] = []
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
