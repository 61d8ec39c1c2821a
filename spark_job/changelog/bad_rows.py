"""Bad rows: changelog rows that cannot be merged. They fail the merge, or are rejected (`on_bad_row: quarantine`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol, Self, TypeVar

import numpy as np

from icemirror.errors import Invalid
from spark_job.columns.arrays import Indices, Mask

Converted = TypeVar("Converted")


class Filterable(Protocol):
    """Columns of some rows."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def filter(self, selected: Mask) -> Self:
        """Return the rows where `selected` is true."""


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
        """A text for users, without values of the row."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    RejectReason.NULL_KEY: "a column of the key is NULL: an event without a key belongs to no row",
    RejectReason.NULL_OPERATION: "the operation is NULL",
    RejectReason.UNKNOWN_OPERATION: "the operation is none of operation_values",
    RejectReason.NULL_SEQUENCE: "a sequence column is NULL: the event has no place in the order",
    RejectReason.UNREADABLE_SEQUENCE: "the sequence does not match sequence_format",
}


class BadFile(Invalid):
    """A changelog file cannot be merged. The message is the problem, followed by the path."""

    def __init__(self, problem: str, path: str) -> None:
        super().__init__(f"{problem}: {path}")
        self.problem = problem


class BadRows(BadFile):
    """Some rows of a file cannot be merged: all rows that failed one check. The message describes the first."""

    def __init__(self, problem: str, path: str, reason: RejectReason, rows: Indices) -> None:
        super().__init__(problem, path)
        self.reason = reason
        self.rows = rows


RowsByReason = Sequence[tuple[RejectReason, Indices]]
"""Rejected rows of a file by reason; each row once."""


def convert_good_rows(
    columns: Rows, convert: Callable[[Rows], Converted]
) -> tuple[Converted, Indices | None, RowsByReason]:
    """Return the converted good rows, their row numbers (None: all rows are good), and the rejected rows.

    If `convert` raises `BadRows`, it is called again without these rows, once per check that fails.
    """
    good_rows: Indices | None = None
    rejected: list[tuple[RejectReason, Indices]] = []
    while True:
        try:
            return convert(columns), good_rows, rejected
        except BadRows as error:
            rows = np.arange(len(columns)) if good_rows is None else good_rows
            is_good = np.ones(len(rows), dtype=np.bool_)
            is_good[error.rows] = False
            if is_good.all():
                raise
            rejected.append((error.reason, rows[error.rows]))
            good_rows = rows[is_good]
            columns = columns.filter(is_good)
