"""State in a DynamoDB table, one item per row: for triggers and jobs on AWS."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self

from icemirror.errors import IcemirrorError, Invalid, Transient
from icemirror.protocol.due_tables import is_waiting
from icemirror.protocol.reads import Reads
from icemirror.protocol.rows import Row, Rows, TableRow
from icemirror.settings.trigger import DynamoDbState
from icemirror.stores.dead_letters import MAX_AGE_SECONDS, MAX_LETTERS, DeadLetter, dump_letter, load_letter
from icemirror.stores.dynamodb_items import MAX_ATTEMPTS, Item, Items, pause, text_of
from icemirror.stores.dynamodb_table import EXPIRY, PARTITION_KEY, SORT_KEY, open_client
from icemirror.stores.letter_index import LetterIndex
from icemirror.stores.store import ResultPage, RunResult
from icemirror.stores.stored_json import dump_result, dump_row, load_result, load_slot, load_table

_TABLE, _SLOT, _LETTER = "table", "slot", "letter"
_RESULT = "result"  # key: a number over all tables; a cursor is the last number read
_HISTORY = "history"  # key: the table; holds the numbers of its results, oldest first
_LETTERS = "letters"  # one item: the index of dead letters
_CHANGES = "bell"  # one item: counts how often a table has started to wait
_MAX_RESULTS_PER_TABLE = 100
_MAX_RESULT_BYTES = 200_000


class DynamoDbStore:
    """A store in one DynamoDB table; all reads are strongly consistent."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 (boto3 builds the class at run time)
        table: str,
        *,
        kept_results: int = _MAX_RESULTS_PER_TABLE,
        kept_letters: int = MAX_LETTERS,
    ) -> None:
        self._items = Items(client, table)
        self._kept_results = kept_results
        self._letters = LetterIndex(
            read=self._read_index,
            write=lambda seen, body: self._items.put(_LETTERS, _LETTERS, seen, {"body": {"S": body}}),
            times=self._letter_times,
            delete=lambda name: self._items.delete(_LETTER, name),
            max_letters=kept_letters,
        )

    def load(self, reads: Reads) -> Rows:
        """Return the requested rows that exist."""
        wanted = [
            (_TABLE, None if reads.tables is None else sorted(reads.tables)),
            (_SLOT, None if reads.slots is None else [str(slot) for slot in sorted(reads.slots)]),
        ]
        found = self._items.get([(kind, key) for kind, keys in wanted for key in keys or ()])
        for kind, keys in wanted:
            if keys is None:
                found += self._items.of_kind(kind)
        tables = [load_table(*self._stored(item)) for item in found if text_of(item, PARTITION_KEY) == _TABLE]
        slots = [load_slot(*self._stored(item)) for item in found if text_of(item, PARTITION_KEY) == _SLOT]
        return Rows({row.name: row for row in tables}, {row.id: row for row in slots})

    def compare_and_set(self, row: Row) -> bool:
        """Write the row if the stored one still has its revision."""
        kind, key = (_TABLE, row.name) if isinstance(row, TableRow) else (_SLOT, str(row.id))
        done = self._items.put(kind, key, row.revision, {"body": {"S": dump_row(row)}})
        if done and isinstance(row, TableRow) and is_waiting(row):
            self._renew_change_token()
        return done

    def change_token(self) -> str:
        """Return the count of times that a table has started to wait."""
        found = self._items.get([(_CHANGES, _CHANGES)])
        return str(found[0]["rung"]["N"]) if found else ""

    def record_result(self, result: RunResult) -> None:
        """Append to the table's history and drop its oldest results."""
        name = result.result.table
        number = self._append(
            {
                "run_id": {"S": result.run_id},
                "at": {"N": repr(result.at)},
                "body": {"S": dump_result(result.result, _MAX_RESULT_BYTES)},
            }
        )
        longer = "SET kept = list_append(if_not_exists(kept, :none), :one)"
        history = self._items.update(
            _HISTORY, name, longer, {":none": {"L": []}, ":one": {"L": [{"S": number}]}}
        )
        kept = [str(number["S"]) for number in (history or {})["kept"]["L"]]
        if old := kept[: max(0, len(kept) - self._kept_results)]:
            for number in old:
                self._items.delete(_RESULT, number)
            shorter = f"REMOVE {', '.join(f'kept[{at}]' for at in range(len(old)))}"
            # if the first entry differs, another process has already removed these
            self._items.update(_HISTORY, name, shorter, {":first": {"S": old[0]}}, "kept[0] = :first")

    def results_since(self, cursor: str) -> ResultPage:
        """Return one page of the results of all tables after the cursor."""
        found = self._items.after(_RESULT, cursor)
        results = [
            load_result(text_of(item, "run_id"), float(item["at"]["N"]), text_of(item, "body"))
            for item in found
        ]
        readable = tuple(result for result in results if result is not None)
        return ResultPage(readable, text_of(found[-1], SORT_KEY) if found else cursor)

    def last_cursor(self) -> str:
        """Return the cursor after the newest result."""
        return self._items.greatest_key(_RESULT)

    def put_letter(self, letter: DeadLetter) -> None:
        """Store a dead letter and drop those above the limits."""
        if not self._letters.admit(letter):
            return
        attributes = {
            "received_at": {"N": repr(letter.received_at)},
            EXPIRY: {"N": str(int(letter.received_at + MAX_AGE_SECONDS))},
            "body": {"S": dump_letter(letter)},
        }
        self._items.overwrite(_LETTER, letter.id, attributes)

    def letters(self) -> tuple[DeadLetter, ...]:
        """Return all dead letters, oldest first."""
        stored = self._items.of_kind(_LETTER)
        found = [load_letter(text_of(item, SORT_KEY), text_of(item, "body")) for item in stored]
        return tuple(sorted(found, key=lambda letter: (letter.received_at, letter.id)))

    def remove_letter(self, letter_id: str) -> bool:
        """Delete a dead letter; return whether it existed."""
        existed = self._items.delete(_LETTER, letter_id)
        self._letters.forget(letter_id)
        return existed

    def close(self) -> None:
        """Close the connections."""
        self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _renew_change_token(self) -> None:
        """Change the token for lingering workers. Best effort: they also poll from time to time."""
        with suppress(IcemirrorError):
            self._items.update(_CHANGES, _CHANGES, "ADD rung :one", {":one": {"N": "1"}})

    def _read_index(self) -> tuple[str, str]:
        found = self._items.get([(_LETTERS, _LETTERS)])
        return (text_of(found[0], "body"), text_of(found[0], "revision")) if found else ("", "")

    def _letter_times(self) -> list[tuple[str, float]]:
        known = self._items.of_kind(_LETTER, attribute="received_at")
        return [(text_of(item, SORT_KEY), float(item["received_at"]["N"])) for item in known]

    def _append(self, attributes: Item) -> str:
        """Write a result under the next number. Numbers have no gaps, so that no reader skips a result."""
        for attempt in range(MAX_ATTEMPTS):
            number = f"{int(self.last_cursor() or 0) + 1:020d}"
            if self._items.put(_RESULT, number, "", attributes):
                return number
            pause(attempt)
        raise Transient(
            f"result not recorded: the state kept changing; try again. DynamoDB table: {self._items.table}"
        )

    def _stored(self, item: Item) -> tuple[str, str]:
        """Return body and revision of a row."""
        body, revision = text_of(item, "body"), text_of(item, "revision")
        if body and revision:
            return body, revision
        key = f"{text_of(item, PARTITION_KEY)}, {text_of(item, SORT_KEY)}"
        raise Invalid(
            f"the item {key} of the state is damaged: it has no body or no revision. Delete it: the next sweep then "
            f"finds all pending work. DynamoDB table: {self._items.table}"
        )


def open_dynamodb(state: DynamoDbState) -> DynamoDbStore:
    """Open the store of these settings."""
    return DynamoDbStore(open_client(state), state.table)
