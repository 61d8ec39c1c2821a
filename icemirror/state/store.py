"""What a store of the trigger's state must do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

from icemirror.result import TableResult
from icemirror.state.letters import Letter
from icemirror.state.reads import Reads
from icemirror.state.rows import Row, Rows


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a worker reports of one turn on a table."""

    run_id: str
    at: float
    result: TableResult


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Results in the order in which they came, and the cursor to go on from."""

    results: tuple[RunResult, ...]
    cursor: str


class Store(Protocol):
    """Keeps rows, each with a revision, the last results of every table, and dead letters. Threads may share it.

    Reads see every write that was acknowledged before they began. That is all the protocol needs beyond
    compare-and-set: no transaction over several rows.
    """

    def load(self, reads: Reads) -> Rows:
        """The rows asked for that exist, each with its revision."""

    def compare_and_set(self, row: Row) -> bool:
        """Writes the row if the stored one still has `row.revision` ("": there is none); False if not."""

    def mark(self) -> str:
        """Something that has changed when a table has come to wait since; far cheaper to read than the rows.

        A hint: it may change for other reasons, and the change may be lost.
        """

    def record_result(self, result: RunResult) -> None:
        """Appends to the table's history, which is cut at its old end."""

    def results_since(self, cursor: str) -> ResultPage:
        """The results of all tables that came after the cursor; "" is the beginning of what is kept."""

    def last_cursor(self) -> str:
        """The cursor after the newest result."""

    def put_letter(self, letter: Letter) -> None:
        """Keeps a dead letter in the place of the one with its id; those beyond the bounds go, the oldest first."""

    def letters(self) -> tuple[Letter, ...]:
        """All dead letters, the oldest first."""

    def remove_letter(self, letter_id: str) -> bool:
        """Forgets a dead letter; False if it was not there."""

    def close(self) -> None:
        """Lets go of files and connections."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
