"""Items of the state's DynamoDB table: read consistently, written on a condition, failures named."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from icemirror.errors import Transient
from icemirror.state.dynamodb_table import PARTITION_KEY, SORT_KEY, condition_failed, named_error

Item = Mapping[str, Mapping[str, Any]]
"""Attributes by name, each a value under the letter of its type, as DynamoDB has them."""

TRIES = 50
_BATCH = 100  # BatchGetItem takes no more
_LONGEST_PAUSE_SECONDS = 0.5


class Items:
    """The items of one table."""

    def __init__(self, client: Any, table: str) -> None:  # noqa: ANN401 (boto3 makes it at run time)
        self._client = client
        self.table = table

    def put(self, kind: str, key: str, seen: str, attributes: Item) -> bool:
        """Writes an item if the stored one has the revision that was seen ("": if there is none); False if not.

        The revision is new with every write: a request that was repeated, since its answer was lost, finds its own
        first try, and does not take it for another writer's.
        """
        revision = uuid4().hex
        condition: dict[str, Any] = {"ConditionExpression": f"attribute_not_exists({PARTITION_KEY})"}
        if seen:
            condition = {
                "ConditionExpression": "revision = :seen",
                "ExpressionAttributeValues": {":seen": {"S": seen}},
            }
        with self._named_errors():
            try:
                self._client.put_item(
                    TableName=self.table,
                    Item={**key_of(kind, key), **attributes, "revision": {"S": revision}},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **condition,
                )
            except ClientError as error:
                if not condition_failed(error):
                    raise
                return text_of(error.response.get("Item", {}), "revision") == revision
        return True

    def overwrite(self, kind: str, key: str, attributes: Item) -> None:
        """Writes an item, whatever is there."""
        with self._named_errors():
            self._client.put_item(TableName=self.table, Item={**key_of(kind, key), **attributes})

    def update(self, kind: str, key: str, expression: str, values: Item, condition: str = "") -> Item | None:
        """Changes an item and gives it as it is then; None if the condition did not hold."""
        given = {"ConditionExpression": condition} if condition else {}
        with self._named_errors():
            try:
                answer = self._client.update_item(
                    TableName=self.table,
                    Key=key_of(kind, key),
                    UpdateExpression=expression,
                    ExpressionAttributeValues=values,
                    ReturnValues="ALL_NEW",
                    **given,
                )
            except ClientError as error:
                if condition_failed(error):
                    return None
                raise
        changed: Item = answer["Attributes"]
        return changed

    def delete(self, kind: str, key: str) -> bool:
        """Removes an item; False if it was not there."""
        with self._named_errors():
            gone = self._client.delete_item(
                TableName=self.table, Key=key_of(kind, key), ReturnValues="ALL_OLD"
            )
        return "Attributes" in gone

    def get(self, keys: Sequence[tuple[str, str]]) -> list[Item]:
        """The items of these keys that there are."""
        found: list[Item] = []
        for at in range(0, len(keys), _BATCH):
            wanted: Mapping[str, Any] = {
                self.table: {
                    "Keys": [key_of(*key) for key in keys[at : at + _BATCH]],
                    "ConsistentRead": True,
                }
            }
            for attempt in range(TRIES):
                with self._named_errors():
                    answer = self._client.batch_get_item(RequestItems=wanted)
                found += answer["Responses"].get(self.table, [])
                wanted = answer.get("UnprocessedKeys") or {}
                if not wanted:
                    break
                pause(attempt)
            else:
                raise Transient(f"DynamoDB kept leaving out rows of the state {self.table}; try again")
        return found

    def of_kind(self, kind: str, only: str = "") -> list[Item]:
        """All items of a kind; of each all attributes, or only its key and this one."""
        wanted = {"ProjectionExpression": f"#kind, #sort, {only}"} if only else {}
        page = self._page(kind, **wanted)
        found: list[Item] = list(page["Items"])
        while start := page.get("LastEvaluatedKey"):
            page = self._page(kind, **wanted, ExclusiveStartKey=start)
            found += page["Items"]
        return found

    def after(self, kind: str, key: str) -> list[Item]:
        """The items of a kind with greater keys in their order, as many as one answer holds."""
        found: list[Item] = self._page(kind, after=key)["Items"]
        return found

    def greatest_key(self, kind: str) -> str:
        """The last key of a kind; empty if there is none."""
        found = self._page(kind, ScanIndexForward=False, Limit=1)["Items"]
        return text_of(found[0], SORT_KEY) if found else ""

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _page(self, kind: str, after: str = "", **options: Any) -> Any:  # noqa: ANN401 (as boto3 has them)
        values = {":kind": {"S": kind}, ":after": {"S": after or "\0"}}  # (a key is never empty)
        with self._named_errors():
            return self._client.query(
                TableName=self.table,
                KeyConditionExpression="#kind = :kind AND #sort > :after",
                ExpressionAttributeNames={"#kind": PARTITION_KEY, "#sort": SORT_KEY},
                ExpressionAttributeValues=values,
                ConsistentRead=True,
                **options,
            )

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise named_error(self.table, error) from error


def key_of(kind: str, key: str) -> dict[str, dict[str, str]]:
    """The key of an item."""
    return {PARTITION_KEY: {"S": kind}, SORT_KEY: {"S": key}}


def text_of(item: Item, name: str) -> str:
    """An attribute that is a text; empty if it is not."""
    return str(item.get(name, {}).get("S", ""))


def pause(attempt: int) -> None:
    """Spreads those who collide, or lets a throttled table rest."""
    time.sleep(min(0.01 * 2 ** min(attempt, 6), _LONGEST_PAUSE_SECONDS) * random.random())  # noqa: S311
