"""Items of the state's DynamoDB table: consistent reads, conditional writes, failures as `icemirror.errors`."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from icemirror.errors import Transient
from icemirror.stores.dynamodb_table import PARTITION_KEY, SORT_KEY, classify_error, condition_failed

Item = Mapping[str, Mapping[str, Any]]
"""Attributes by name in DynamoDB's form: each value under the letter of its type."""

MAX_ATTEMPTS = 50
_BATCH_KEYS = 100  # the limit of BatchGetItem
_MAX_PAUSE_SECONDS = 0.5


class Items:
    """The items of one table."""

    def __init__(self, client: Any, table: str) -> None:  # noqa: ANN401 (boto3 builds the class at run time)
        self._client = client
        self.table = table

    def put(self, kind: str, key: str, seen: str, attributes: Item) -> bool:
        """Write an item if the stored one has the revision `seen` ("": none stored); return whether it was written.

        Every write has a new revision. So a request that boto3 repeats because the first response was lost recognizes
        its own first attempt.
        """
        revision = uuid4().hex
        condition: dict[str, Any] = {"ConditionExpression": f"attribute_not_exists({PARTITION_KEY})"}
        if seen:
            condition = {
                "ConditionExpression": "revision = :seen",
                "ExpressionAttributeValues": {":seen": {"S": seen}},
            }
        with self._translated_errors():
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
        """Write an item unconditionally."""
        with self._translated_errors():
            self._client.put_item(TableName=self.table, Item={**key_of(kind, key), **attributes})

    def update(self, kind: str, key: str, expression: str, values: Item, condition: str = "") -> Item | None:
        """Update an item and return it; None if the condition did not hold."""
        given = {"ConditionExpression": condition} if condition else {}
        with self._translated_errors():
            try:
                response = self._client.update_item(
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
        changed: Item = response["Attributes"]
        return changed

    def delete(self, kind: str, key: str) -> bool:
        """Delete an item; return whether it existed."""
        with self._translated_errors():
            response = self._client.delete_item(
                TableName=self.table, Key=key_of(kind, key), ReturnValues="ALL_OLD"
            )
        return "Attributes" in response

    def get(self, keys: Sequence[tuple[str, str]]) -> list[Item]:
        """Return the items of these keys that exist."""
        found: list[Item] = []
        for at in range(0, len(keys), _BATCH_KEYS):
            wanted: Mapping[str, Any] = {
                self.table: {
                    "Keys": [key_of(*key) for key in keys[at : at + _BATCH_KEYS]],
                    "ConsistentRead": True,
                }
            }
            for attempt in range(MAX_ATTEMPTS):
                with self._translated_errors():
                    response = self._client.batch_get_item(RequestItems=wanted)
                found += response["Responses"].get(self.table, [])
                wanted = response.get("UnprocessedKeys") or {}
                if not wanted:
                    break
                pause(attempt)
            else:
                raise Transient(
                    f"DynamoDB returned only some of the requested rows; try again. DynamoDB table: {self.table}"
                )
        return found

    def of_kind(self, kind: str, attribute: str = "") -> list[Item]:
        """Return all items of a kind: all attributes, or only the key and this one."""
        wanted = {"ProjectionExpression": f"#kind, #sort, {attribute}"} if attribute else {}
        page = self._page(kind, **wanted)
        found: list[Item] = list(page["Items"])
        while start := page.get("LastEvaluatedKey"):
            page = self._page(kind, **wanted, ExclusiveStartKey=start)
            found += page["Items"]
        return found

    def after(self, kind: str, key: str) -> list[Item]:
        """Return the items of a kind with greater keys, in key order, as many as one response holds."""
        found: list[Item] = self._page(kind, after=key)["Items"]
        return found

    def greatest_key(self, kind: str) -> str:
        """Return the last key of a kind; empty if there is none."""
        found = self._page(kind, ScanIndexForward=False, Limit=1)["Items"]
        return text_of(found[0], SORT_KEY) if found else ""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _page(self, kind: str, after: str = "", **options: Any) -> Any:  # noqa: ANN401 (boto3's types)
        values = {":kind": {"S": kind}, ":after": {"S": after or "\0"}}  # (a key is never empty)
        with self._translated_errors():
            return self._client.query(
                TableName=self.table,
                KeyConditionExpression="#kind = :kind AND #sort > :after",
                ExpressionAttributeNames={"#kind": PARTITION_KEY, "#sort": SORT_KEY},
                ExpressionAttributeValues=values,
                ConsistentRead=True,
                **options,
            )

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise classify_error(self.table, error) from error


def key_of(kind: str, key: str) -> dict[str, dict[str, str]]:
    """Return the key of an item."""
    return {PARTITION_KEY: {"S": kind}, SORT_KEY: {"S": key}}


def text_of(item: Item, name: str) -> str:
    """Return a text attribute; empty if it is missing or not text."""
    return str(item.get(name, {}).get("S", ""))


def pause(attempt: int) -> None:
    """Sleep a random time: spreads colliding writers and relieves a throttled table."""
    time.sleep(min(0.01 * 2 ** min(attempt, 6), _MAX_PAUSE_SECONDS) * random.random())  # noqa: S311
