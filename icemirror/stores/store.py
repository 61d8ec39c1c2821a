"""The interface of a state store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

from icemirror.protocol.reads import Reads
from icemirror.protocol.rows import Row, Rows
from icemirror.result import TableResult
from icemirror.stores.dead_letters import DeadLetter


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a worker reports of one turn on a table."""

    run_id: str
    at: float
    result: TableResult


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Results in the order of their arrival, and the cursor for the next page."""

    results: tuple[RunResult, ...]
    cursor: str


class Store(Protocol):
    """Stores rows with revisions, the last results of every table, and dead letters. Threads may share it.

    The protocol needs two guarantees: compare-and-set of one row, and reads that see every write acknowledged before
    they began. It needs no transaction over several rows.
    """

    def load(self, reads: Reads) -> Rows:
        """Return the requested rows that exist, each with its revision."""

    def compare_and_set(self, row: Row) -> bool:
        """Write the row if the stored one still has `row.revision` ("": none stored); return whether it was written."""

    def change_token(self) -> str:
        """Return a change token: it differs after a table has started to wait. Far cheaper to read than the rows.

        It is a hint: it may change for other reasons, and a change may be lost.
        """

    def record_result(self, result: RunResult) -> None:
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
