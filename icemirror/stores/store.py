"""The interface of a state store, and the keys of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

from icemirror.protocol.row_selection import RowSelection
from icemirror.protocol.rows import Row, Rows, TableRow
from icemirror.result import TableResult
from icemirror.stores.dead_letters import DeadLetter

TABLE, SLOT = "table", "slot"
"""Kinds of rows, as stores name them."""


def row_key(row: Row) -> tuple[str, str]:
    """Return the kind of a row and its key."""
    return (TABLE, row.name) if isinstance(row, TableRow) else (SLOT, str(row.id))


def keys_by_kind(selection: RowSelection) -> dict[str, list[str] | None]:
    """Return the keys to load of each kind of rows; None: all of them."""
    return {
        TABLE: None if selection.tables is None else sorted(selection.tables),
        SLOT: None if selection.slots is None else [str(slot) for slot in sorted(selection.slots)],
    }


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a worker reports of one turn on a table. `run_id`: the run of that worker."""

    run_id: str
    recorded_at: float
    table_result: TableResult


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Results in the order of their arrival, and the cursor for the next page."""

    results: tuple[TurnResult, ...]
    cursor: str


class Store(Protocol):
    """Stores rows with revisions, the last results of every table, and dead letters. Threads may share it.

    The protocol needs two guarantees: compare-and-set of one row, and reads that see every write acknowledged before
    they began. It needs no transaction over several rows.
    """

    def load(self, selection: RowSelection) -> Rows:
        """Return the selected rows that exist, each with its revision."""

    def compare_and_set(self, row: Row) -> bool:
        """Write the row if the stored one still has `row.revision` ("": none stored); return whether it was written."""

    def change_token(self) -> str:
        """Return a change token: it differs after a table has started to wait. Far cheaper to read than the rows.

        It is a hint: it may change for other reasons, and a change may be lost.
        """

    def record_result(self, result: TurnResult) -> None:
        """Append to the table's history and drop its oldest results."""

    def results_since(self, cursor: str) -> ResultPage:
        """Return the results of all tables after the cursor; "" is the start of the history."""

    def last_cursor(self) -> str:
        """Return the cursor after the newest result."""

    def put_letter(self, letter: DeadLetter) -> None:
        """Store a dead letter, replacing one with the same id; drop the oldest ones above the limits."""

    def letters(self) -> tuple[DeadLetter, ...]:
        """Return all dead letters, oldest first."""

    def remove_letter(self, letter_id: str) -> bool:
        """Delete a dead letter; return whether it existed."""

    def close(self) -> None:
        """Close files and connections."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
