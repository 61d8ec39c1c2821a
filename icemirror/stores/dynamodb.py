"""State in a DynamoDB table, one item per row: for triggers and jobs on AWS."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self

from icemirror.errors import IcemirrorError, Invalid, Transient
from icemirror.protocol.due_tables import is_waiting
from icemirror.protocol.row_selection import RowSelection
from icemirror.protocol.rows import Row, Rows, TableRow
from icemirror.settings.trigger import DynamoDbState
from icemirror.stores.dead_letters import MAX_AGE_SECONDS, MAX_LETTERS, DeadLetter, dump_letter, load_letter
from icemirror.stores.dynamodb_items import MAX_ATTEMPTS, Item, StateItems, pause, read_text
from icemirror.stores.dynamodb_table import EXPIRY, PARTITION_KEY, SORT_KEY, open_client
from icemirror.stores.letter_index import LetterIndex
from icemirror.stores.store import SLOT, TABLE, ResultPage, TurnResult, keys_by_kind, row_key
from icemirror.stores.stored_json import dump_result, dump_row, load_result, load_slot, load_table

_LETTER = "letter"
_RESULT = "result"  # key: a number over all tables; a cursor is the last number read
_HISTORY = "history"  # key: the table; holds the numbers of its results, oldest first
_LETTERS = "letters"  # one item: the index of dead letters
_CHANGES = "bell"  # one item (its stored name): counts in `rung` how often a table has started to wait
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
        self._items = StateItems(client, table)
        self._kept_results = kept_results
        self._letters = LetterIndex(
            read=self._read_index,
            write=lambda revision, body: self._items.put(_LETTERS, _LETTERS, revision, {"body": {"S": body}}),
            read_arrival_times=self._read_arrival_times,
            delete=lambda letter_id: self._items.delete(_LETTER, letter_id),
            max_letters=kept_letters,
        )

    def load(self, selection: RowSelection) -> Rows:
        """Return the selected rows that exist."""
        selected = keys_by_kind(selection)
        items = self._items.get([(kind, key) for kind, keys in selected.items() for key in keys or ()])
        for kind, keys in selected.items():
            if keys is None:
                items += self._items.list_kind(kind)
        tables = [load_table(*self._read_row(item)) for item in items if _kind(item) == TABLE]
        slots = [load_slot(*self._read_row(item)) for item in items if _kind(item) == SLOT]
        return Rows({row.name: row for row in tables}, {row.id: row for row in slots})

    def compare_and_set(self, row: Row) -> bool:
        """Write the row if the stored one still has its revision."""
        is_written = self._items.put(*row_key(row), row.revision, {"body": {"S": dump_row(row)}})
        if is_written and isinstance(row, TableRow) and is_waiting(row):
            self._renew_change_token()
        return is_written

    def change_token(self) -> str:
        """Return the count of times that a table has started to wait."""
        items = self._items.get([(_CHANGES, _CHANGES)])
        return str(items[0]["rung"]["N"]) if items else ""

    def record_result(self, result: TurnResult) -> None:
        """Append to the table's history and drop its oldest results."""
        table = result.table_result.table
        new_number = self._append_result(
            {
                "run_id": {"S": result.run_id},
                "at": {"N": repr(result.recorded_at)},
                "body": {"S": dump_result(result.table_result, _MAX_RESULT_BYTES)},
            }
        )
        append_expression = "SET kept = list_append(if_not_exists(kept, :none), :one)"
        values: Item = {":none": {"L": []}, ":one": {"L": [{"S": new_number}]}}
        history = self._items.update(_HISTORY, table, append_expression, values)
        numbers = [str(number["S"]) for number in (history or {})["kept"]["L"]]
        if old_numbers := numbers[: max(0, len(numbers) - self._kept_results)]:
            for number in old_numbers:
                self._items.delete(_RESULT, number)
            trim_expression = f"REMOVE {', '.join(f'kept[{index}]' for index in range(len(old_numbers)))}"
            first_number = {":first": {"S": old_numbers[0]}}
            # If the first entry differs, another process has removed these.
            self._items.update(_HISTORY, table, trim_expression, first_number, "kept[0] = :first")

    def results_since(self, cursor: str) -> ResultPage:
        """Return one page of the results of all tables after the cursor."""
        items = self._items.list_after(_RESULT, cursor)
        results = [
            load_result(read_text(item, "run_id"), float(item["at"]["N"]), read_text(item, "body"))
            for item in items
        ]
        readable = tuple(result for result in results if result is not None)
        return ResultPage(readable, read_text(items[-1], SORT_KEY) if items else cursor)

    def last_cursor(self) -> str:
        """Return the cursor after the newest result."""
        return self._items.greatest_key(_RESULT)

    def put_letter(self, letter: DeadLetter) -> None:
        """Store a dead letter and drop those above the limits."""
        if not self._letters.add(letter):
            return
        attributes = {
            "received_at": {"N": repr(letter.received_at)},
            EXPIRY: {"N": str(int(letter.received_at + MAX_AGE_SECONDS))},
            "body": {"S": dump_letter(letter)},
        }
        self._items.overwrite(_LETTER, letter.id, attributes)

    def letters(self) -> tuple[DeadLetter, ...]:
        """Return all dead letters, oldest first."""
        items = self._items.list_kind(_LETTER)
        letters = [load_letter(read_text(item, SORT_KEY), read_text(item, "body")) for item in items]
        return tuple(sorted(letters, key=lambda letter: (letter.received_at, letter.id)))

    def remove_letter(self, letter_id: str) -> bool:
        """Delete a dead letter; return whether it existed."""
        existed = self._items.delete(_LETTER, letter_id)
        self._letters.remove(letter_id)
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
        items = self._items.get([(_LETTERS, _LETTERS)])
        return (read_text(items[0], "body"), read_text(items[0], "revision")) if items else ("", "")

    def _read_arrival_times(self) -> list[tuple[str, float]]:
        items = self._items.list_kind(_LETTER, attribute="received_at")
        return [(read_text(item, SORT_KEY), float(item["received_at"]["N"])) for item in items]

    def _append_result(self, attributes: Item) -> str:
        """Write a result under the next number. Numbers have no gaps, so that no reader skips a result."""
        for attempt in range(MAX_ATTEMPTS):
            number = f"{int(self.last_cursor() or 0) + 1:020d}"
            if self._items.put(_RESULT, number, "", attributes):
                return number
            pause(attempt)
        raise Transient(
            f"result not recorded: the state kept changing; try again. DynamoDB table: {self._items.table}"
        )

    def _read_row(self, item: Item) -> tuple[str, str]:
        """Return body and revision of a row."""
        body, revision = read_text(item, "body"), read_text(item, "revision")
        if body and revision:
            return body, revision
        key = f"{read_text(item, PARTITION_KEY)}, {read_text(item, SORT_KEY)}"
        raise Invalid(
            f"the item {key} of the state is damaged: it has no body or no revision. Delete it: the next sweep then "
            f"finds all pending work. DynamoDB table: {self._items.table}"
        )


def open_dynamodb(state: DynamoDbState) -> DynamoDbStore:
    """Open the store of these settings."""
    return DynamoDbStore(open_client(state), state.table)


def _kind(item: Item) -> str:
    return read_text(item, PARTITION_KEY)
