"""The state in a DynamoDB table: for triggers and jobs on AWS, wherever they run.

One item for each row, `kind` and `key` being its key. `revision` is new with every write, so that a request which was
repeated because its answer was lost finds its own first try, and does not take it for another writer's.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from icemirror.errors import Invalid, Transient
from icemirror.settings.trigger import DynamoDbState
from icemirror.state.dynamodb_table import (
    EXPIRY,
    PARTITION_KEY,
    SORT_KEY,
    condition_failed,
    named_error,
    open_client,
)
from icemirror.state.letters import (
    MAX_AGE_SECONDS,
    MAX_LETTERS,
    Letter,
    dump_letter,
    load_letter,
    surplus,
)
from icemirror.state.reads import Reads
from icemirror.state.result_json import dump_result, load_result
from icemirror.state.row_json import dump_row, load_slot, load_table
from icemirror.state.rows import Row, Rows, TableRow
from icemirror.state.store import ResultPage, RunResult

Item = Mapping[str, Mapping[str, Any]]
"""Attributes by name, each a value under the letter of its type, as DynamoDB has them."""

_TABLE, _SLOT, _LETTER = "table", "slot", "letter"
_RESULT = "result"  # by number, all tables together: a cursor is the last number seen
_HISTORY = "history"  # by table: the numbers of its results, the oldest first
_KEPT_RESULTS = 100
_MOST_RESULT_BYTES = 200_000
_BATCH = 100  # BatchGetItem takes no more
_TRIES = 50
_LONGEST_PAUSE_SECONDS = 0.5


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
        self._client = client
        self._table = table
        self._kept_results = kept_results
        self._kept_letters = kept_letters

    def load(self, reads: Reads) -> Rows:
        """The rows asked for that exist."""
        wanted = [
            (_TABLE, None if reads.tables is None else sorted(reads.tables)),
            (_SLOT, None if reads.slots is None else [str(slot) for slot in sorted(reads.slots)]),
        ]
        with self._named_errors():
            found = self._get([(kind, key) for kind, keys in wanted for key in keys or ()])
            for kind, keys in wanted:
                if keys is None:
                    found += self._query(kind)
        tables = [load_table(*self._stored(item)) for item in found if _text(item, PARTITION_KEY) == _TABLE]
        slots = [load_slot(*self._stored(item)) for item in found if _text(item, PARTITION_KEY) == _SLOT]
        return Rows({row.name: row for row in tables}, {row.id: row for row in slots})

    def compare_and_set(self, row: Row) -> bool:
        """Writes the row if the stored one still has its revision."""
        kind, key = (_TABLE, row.name) if isinstance(row, TableRow) else (_SLOT, str(row.id))
        with self._named_errors():
            return self._put(kind, key, row.revision, body={"S": dump_row(row)})

    def record_result(self, result: RunResult) -> None:
        """Appends to the table's history and cuts its old end."""
        name = result.result.table
        attributes = {
            "run_id": {"S": result.run_id},
            "at": {"N": repr(result.at)},
            "body": {"S": dump_result(result.result, _MOST_RESULT_BYTES)},
        }
        with self._named_errors():
            number = self._append(attributes)
            history = self._client.update_item(
                TableName=self._table,
                Key=_key(_HISTORY, name),
                UpdateExpression="SET kept = list_append(if_not_exists(kept, :none), :one)",
                ExpressionAttributeValues={":none": {"L": []}, ":one": {"L": [{"S": number}]}},
                ReturnValues="ALL_NEW",
            )
            kept = [one["S"] for one in history["Attributes"]["kept"]["L"]]
            self._cut(name, kept[: max(0, len(kept) - self._kept_results)])

    def results_since(self, cursor: str) -> ResultPage:
        """The results of all tables that came after the cursor, a page of them."""
        with self._named_errors():
            found = self._query_page(_RESULT, after=cursor or "0").get("Items", [])
        results = [
            load_result(_text(item, "run_id"), float(item["at"]["N"]), _text(item, "body")) for item in found
        ]
        readable = tuple(result for result in results if result is not None)
        return ResultPage(readable, _text(found[-1], SORT_KEY) if found else cursor)

    def last_cursor(self) -> str:
        """The cursor after the newest result."""
        with self._named_errors():
            found = self._query_page(_RESULT, ScanIndexForward=False, Limit=1).get("Items", [])
        return _text(found[0], SORT_KEY) if found else ""

    def put_letter(self, letter: Letter) -> None:
        """Keeps a dead letter, and forgets those beyond the bounds."""
        item = {
            **_key(_LETTER, letter.id),
            "received_at": {"N": repr(letter.received_at)},
            EXPIRY: {"N": str(int(letter.received_at + MAX_AGE_SECONDS))},
            "body": {"S": dump_letter(letter)},
        }
        with self._named_errors():
            self._client.put_item(TableName=self._table, Item=item)
            known = self._query(_LETTER, ProjectionExpression="#sort, received_at")
            times = [(_text(item, SORT_KEY), float(item["received_at"]["N"])) for item in known]
            for name in surplus(times, letter.received_at, self._kept_letters):
                self._client.delete_item(TableName=self._table, Key=_key(_LETTER, name))

    def letters(self) -> tuple[Letter, ...]:
        """All dead letters, the oldest first."""
        with self._named_errors():
            found = [load_letter(_text(item, SORT_KEY), _text(item, "body")) for item in self._query(_LETTER)]
        return tuple(sorted(found, key=lambda letter: (letter.received_at, letter.id)))

    def remove_letter(self, letter_id: str) -> bool:
        """Forgets a dead letter."""
        with self._named_errors():
            gone = self._client.delete_item(
                TableName=self._table, Key=_key(_LETTER, letter_id), ReturnValues="ALL_OLD"
            )
        return "Attributes" in gone

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, kind: str, key: str, seen: str, **attributes: Mapping[str, Any]) -> bool:
        """Writes an item if the stored one has the revision that was seen ("": if there is none)."""
        revision = uuid4().hex
        condition: dict[str, Any] = {"ConditionExpression": f"attribute_not_exists({PARTITION_KEY})"}
        if seen:
            condition = {
                "ConditionExpression": "revision = :seen",
                "ExpressionAttributeValues": {":seen": {"S": seen}},
            }
        try:
            self._client.put_item(
                TableName=self._table,
                Item={**_key(kind, key), "revision": {"S": revision}, **attributes},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **condition,
            )
        except ClientError as error:
            if not condition_failed(error):
                raise
            return _text(error.response.get("Item", {}), "revision") == revision
        return True

    def _append(self, attributes: Mapping[str, Mapping[str, Any]]) -> str:
        """Writes a result under the next number: one after the other, so that no reader passes one by."""
        for attempt in range(_TRIES):
            number = f"{int(self.last_cursor() or 0) + 1:020d}"
            if self._put(_RESULT, number, "", **attributes):
                return number
            _pause(attempt)
        raise Transient(f"the state {self._table} kept changing: a result could not be recorded")

    def _cut(self, name: str, old: Sequence[str]) -> None:
        for number in old:
            self._client.delete_item(TableName=self._table, Key=_key(_RESULT, number))
        if not old:
            return
        try:
            self._client.update_item(
                TableName=self._table,
                Key=_key(_HISTORY, name),
                UpdateExpression=f"REMOVE {', '.join(f'kept[{at}]' for at in range(len(old)))}",
                ConditionExpression="kept[0] = :first",
                ExpressionAttributeValues={":first": {"S": old[0]}},
            )
        except ClientError as error:
            if not condition_failed(error):  # else another has cut it already
                raise

    def _get(self, keys: Sequence[tuple[str, str]]) -> list[Item]:
        """The items of these keys."""
        found: list[Item] = []
        for at in range(0, len(keys), _BATCH):
            wanted: Mapping[str, Any] = {
                self._table: {"Keys": [_key(*key) for key in keys[at : at + _BATCH]], "ConsistentRead": True}
            }
            for attempt in range(_TRIES):
                answer = self._client.batch_get_item(RequestItems=wanted)
                found += answer["Responses"].get(self._table, [])
                wanted = answer.get("UnprocessedKeys") or {}
                if not wanted:
                    break
                _pause(attempt)
            else:
                raise Transient(f"DynamoDB kept leaving out rows of the state {self._table}; try again")
        return found

    def _query(self, kind: str, **options: Any) -> list[Item]:  # noqa: ANN401 (as boto3 takes them)
        """All items of a kind."""
        page = self._query_page(kind, **options)
        found: list[Item] = list(page["Items"])
        while start := page.get("LastEvaluatedKey"):
            page = self._query_page(kind, ExclusiveStartKey=start, **options)
            found += page["Items"]
        return found

    def _query_page(self, kind: str, after: str = "", **options: Any) -> Any:  # noqa: ANN401 (as above)
        names, values = {"#kind": PARTITION_KEY}, {":kind": {"S": kind}}
        condition = "#kind = :kind"
        if after:
            condition += " AND #sort > :after"
            values[":after"] = {"S": after}
        if after or "ProjectionExpression" in options:
            names["#sort"] = SORT_KEY
        return self._client.query(
            TableName=self._table,
            KeyConditionExpression=condition,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=values,
            ConsistentRead=True,
            **options,
        )

    def _stored(self, item: Item) -> tuple[str, str]:
        """Body and revision of a row."""
        body, revision = _text(item, "body"), _text(item, "revision")
        if body and revision:
            return body, revision
        raise Invalid(
            f"the item {_text(item, PARTITION_KEY)}, {_text(item, SORT_KEY)} of the state {self._table} is damaged: "
            "it lacks its body or its revision. Delete it: the next sweep finds all that is to be merged"
        )

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise named_error(self._table, error) from error


def open_dynamodb(state: DynamoDbState) -> DynamoDbStore:
    """The store of these settings."""
    return DynamoDbStore(open_client(state), state.table)


def _key(kind: str, key: str) -> dict[str, dict[str, str]]:
    return {PARTITION_KEY: {"S": kind}, SORT_KEY: {"S": key}}


def _text(item: Item, name: str) -> str:
    """An attribute that is a text; empty if it is not."""
    return str(item.get(name, {}).get("S", ""))


def _pause(attempt: int) -> None:
    time.sleep(min(0.01 * 2 ** min(attempt, 6), _LONGEST_PAUSE_SECONDS) * random.random())  # noqa: S311
