"""The state in a DynamoDB table, one item for each row: for triggers and jobs on AWS, wherever they run."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self

from icemirror.errors import IcemirrorError, Invalid, Transient
from icemirror.settings.trigger import DynamoDbState
from icemirror.state.dynamodb_items import TRIES, Item, Items, pause, text_of
from icemirror.state.dynamodb_table import EXPIRY, PARTITION_KEY, SORT_KEY, open_client
from icemirror.state.eligibility import waits
from icemirror.state.letter_index import LetterIndex
from icemirror.state.letters import MAX_AGE_SECONDS, MAX_LETTERS, Letter, dump_letter, load_letter
from icemirror.state.reads import Reads
from icemirror.state.result_json import dump_result, load_result
from icemirror.state.row_json import dump_row, load_slot, load_table
from icemirror.state.rows import Row, Rows, TableRow
from icemirror.state.store import ResultPage, RunResult

_TABLE, _SLOT, _LETTER = "table", "slot", "letter"
_RESULT = "result"  # by number, all tables together: a cursor is the last number seen
_HISTORY = "history"  # by table: the numbers of its results, the oldest first
_LETTERS = "letters"  # one item: which letters there are
_BELL = "bell"  # one item: how often a table has come to wait
_KEPT_RESULTS = 100
_MOST_RESULT_BYTES = 200_000


class DynamoDbStore:
    """A store in one table of DynamoDB; all reads are consistent ones."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 (boto3 makes it at run time)
        table: str,
        *,
        kept_results: int = _KEPT_RESULTS,
        kept_letters: int = MAX_LETTERS,
    ) -> None:
        self._items = Items(client, table)
        self._kept_results = kept_results
        self._letters = LetterIndex(
            read=self._read_index,
            write=lambda seen, body: self._items.put(_LETTERS, _LETTERS, seen, {"body": {"S": body}}),
            times=self._letter_times,
            delete=lambda name: self._items.delete(_LETTER, name),
            most=kept_letters,
        )

    def load(self, reads: Reads) -> Rows:
        """The rows asked for that exist."""
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
        """Writes the row if the stored one still has its revision."""
        kind, key = (_TABLE, row.name) if isinstance(row, TableRow) else (_SLOT, str(row.id))
        done = self._items.put(kind, key, row.revision, {"body": {"S": dump_row(row)}})
        if done and isinstance(row, TableRow) and waits(row):
            self._ring()
        return done

    def mark(self) -> str:
        """How often a table has come to wait."""
        found = self._items.get([(_BELL, _BELL)])
        return str(found[0]["rung"]["N"]) if found else ""

    def record_result(self, result: RunResult) -> None:
        """Appends to the table's history and cuts its old end."""
        name = result.result.table
        number = self._append(
            {
                "run_id": {"S": result.run_id},
                "at": {"N": repr(result.at)},
                "body": {"S": dump_result(result.result, _MOST_RESULT_BYTES)},
            }
        )
        longer = "SET kept = list_append(if_not_exists(kept, :none), :one)"
        history = self._items.update(
            _HISTORY, name, longer, {":none": {"L": []}, ":one": {"L": [{"S": number}]}}
        )
        kept = [str(one["S"]) for one in (history or {})["kept"]["L"]]
        if old := kept[: max(0, len(kept) - self._kept_results)]:
            for number in old:
                self._items.delete(_RESULT, number)
            shorter = f"REMOVE {', '.join(f'kept[{at}]' for at in range(len(old)))}"
            # if the first is another one, somebody has cut it already
            self._items.update(_HISTORY, name, shorter, {":first": {"S": old[0]}}, "kept[0] = :first")

    def results_since(self, cursor: str) -> ResultPage:
        """The results of all tables that came after the cursor, a page of them."""
        found = self._items.after(_RESULT, cursor)
        results = [
            load_result(text_of(item, "run_id"), float(item["at"]["N"]), text_of(item, "body"))
            for item in found
        ]
        readable = tuple(result for result in results if result is not None)
        return ResultPage(readable, text_of(found[-1], SORT_KEY) if found else cursor)

    def last_cursor(self) -> str:
        """The cursor after the newest result."""
        return self._items.greatest_key(_RESULT)

    def put_letter(self, letter: Letter) -> None:
        """Keeps a dead letter, and forgets those beyond the bounds."""
        if not self._letters.admit(letter):
            return
        attributes = {
            "received_at": {"N": repr(letter.received_at)},
            EXPIRY: {"N": str(int(letter.received_at + MAX_AGE_SECONDS))},
            "body": {"S": dump_letter(letter)},
        }
        self._items.overwrite(_LETTER, letter.id, attributes)

    def letters(self) -> tuple[Letter, ...]:
        """All dead letters, the oldest first."""
        stored = self._items.of_kind(_LETTER)
        found = [load_letter(text_of(item, SORT_KEY), text_of(item, "body")) for item in stored]
        return tuple(sorted(found, key=lambda letter: (letter.received_at, letter.id)))

    def remove_letter(self, letter_id: str) -> bool:
        """Forgets a dead letter."""
        was_there = self._items.delete(_LETTER, letter_id)
        self._letters.forget(letter_id)
        return was_there

    def close(self) -> None:
        """Closes the connections."""
        self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ring(self) -> None:
        """For workers that linger; they look now and then anyway, so nothing depends on it."""
        with suppress(IcemirrorError):
            self._items.update(_BELL, _BELL, "ADD rung :one", {":one": {"N": "1"}})

    def _read_index(self) -> tuple[str, str]:
        found = self._items.get([(_LETTERS, _LETTERS)])
        return (text_of(found[0], "body"), text_of(found[0], "revision")) if found else ("", "")

    def _letter_times(self) -> list[tuple[str, float]]:
        known = self._items.of_kind(_LETTER, only="received_at")
        return [(text_of(item, SORT_KEY), float(item["received_at"]["N"])) for item in known]

    def _append(self, attributes: Item) -> str:
        """Writes a result under the next number: one after the other, so that no reader passes one by."""
        for attempt in range(TRIES):
            number = f"{int(self.last_cursor() or 0) + 1:020d}"
            if self._items.put(_RESULT, number, "", attributes):
                return number
            pause(attempt)
        raise Transient(f"the state {self._items.table} kept changing: a result could not be recorded")

    def _stored(self, item: Item) -> tuple[str, str]:
        """Body and revision of a row."""
        body, revision = text_of(item, "body"), text_of(item, "revision")
        if body and revision:
            return body, revision
        where = f"{text_of(item, PARTITION_KEY)}, {text_of(item, SORT_KEY)} of the state {self._items.table}"
        raise Invalid(
            f"the item {where} is damaged: it lacks its body or its revision. Delete it: the next sweep finds all "
            "that is to be merged"
        )


def open_dynamodb(state: DynamoDbState) -> DynamoDbStore:
    """The store of these settings."""
    return DynamoDbStore(open_client(state), state.table)
