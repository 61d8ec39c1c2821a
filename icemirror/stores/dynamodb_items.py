"""Items of the state's DynamoDB table: consistent reads, conditional writes, failures as `icemirror.errors`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from icemirror.errors import Transient
from icemirror.stores.dynamodb_table import PARTITION_KEY, SORT_KEY, classify_error, condition_failed
from icemirror.stores.pause import pause_seconds

Item = Mapping[str, Mapping[str, Any]]
"""Attributes by name in DynamoDB's form: each value under the letter of its type."""

MAX_ATTEMPTS = 50
_BATCH_KEYS = 100  # the limit of BatchGetItem
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.01, 0.5


class StateItems:
    """The items of one table."""

    def __init__(self, client: Any, table: str) -> None:  # noqa: ANN401 (boto3 builds the class at run time)
        self._client = client
        self.table = table

    def put(self, kind: str, key: str, expected_revision: str, attributes: Item) -> bool:
        """Write an item if the stored one has this revision ("": none stored); return whether it was written.

        Every write has a new revision. So a request that boto3 repeats because the first response was lost recognizes
        its own first attempt.
        """
        revision = uuid4().hex
        condition: dict[str, Any] = {"ConditionExpression": f"attribute_not_exists({PARTITION_KEY})"}
        if expected_revision:
            condition = {
                "ConditionExpression": "revision = :expected",
                "ExpressionAttributeValues": {":expected": {"S": expected_revision}},
            }
        with self._translated_errors():
            try:
                self._client.put_item(
                    TableName=self.table,
                    Item={**item_key(kind, key), **attributes, "revision": {"S": revision}},
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **condition,
                )
            except ClientError as error:
                if not condition_failed(error):
                    raise
                return read_text(error.response.get("Item", {}), "revision") == revision
        return True

    def overwrite(self, kind: str, key: str, attributes: Item) -> None:
        """Write an item unconditionally."""
        with self._translated_errors():
            self._client.put_item(TableName=self.table, Item={**item_key(kind, key), **attributes})

    def update(self, kind: str, key: str, expression: str, values: Item, condition: str = "") -> Item | None:
        """Update an item and return it; None if the condition did not hold."""
        options = {"ConditionExpression": condition} if condition else {}
        with self._translated_errors():
            try:
                response = self._client.update_item(
                    TableName=self.table,
                    Key=item_key(kind, key),
                    UpdateExpression=expression,
                    ExpressionAttributeValues=values,
                    ReturnValues="ALL_NEW",
                    **options,
                )
            except ClientError as error:
                if condition_failed(error):
                    return None
                raise
        item: Item = response["Attributes"]
        return item

    def delete(self, kind: str, key: str) -> bool:
        """Delete an item; return whether it existed."""
        with self._translated_errors():
            response = self._client.delete_item(
                TableName=self.table, Key=item_key(kind, key), ReturnValues="ALL_OLD"
            )
        return "Attributes" in response

    def get(self, keys: Sequence[tuple[str, str]]) -> list[Item]:
        """Return the items of these keys that exist."""
        items: list[Item] = []
        for start in range(0, len(keys), _BATCH_KEYS):
            request: Mapping[str, Any] = {
                self.table: {
                    "Keys": [item_key(*key) for key in keys[start : start + _BATCH_KEYS]],
                    "ConsistentRead": True,
                }
            }
            for attempt in range(MAX_ATTEMPTS):
                with self._translated_errors():
                    response = self._client.batch_get_item(RequestItems=request)
                items += response["Responses"].get(self.table, [])
                request = response.get("UnprocessedKeys") or {}
                if not request:
                    break
                pause(attempt)
            else:
                raise Transient(
                    f"DynamoDB returned only some of the requested rows; try again. DynamoDB table: {self.table}"
                )
        return items

    def list_kind(self, kind: str, attribute: str = "") -> list[Item]:
        """Return all items of a kind: all attributes, or only the key and this one."""
        options = {"ProjectionExpression": f"#kind, #sort, {attribute}"} if attribute else {}
        page = self._query_page(kind, **options)
        items: list[Item] = list(page["Items"])
        while start := page.get("LastEvaluatedKey"):
            page = self._query_page(kind, **options, ExclusiveStartKey=start)
            items += page["Items"]
        return items

    def list_after(self, kind: str, key: str) -> list[Item]:
        """Return the items of a kind with greater keys, in key order, as many as one response holds."""
        items: list[Item] = self._query_page(kind, after=key)["Items"]
        return items

    def greatest_key(self, kind: str) -> str:
        """Return the last key of a kind; empty if there is none."""
        items = self._query_page(kind, ScanIndexForward=False, Limit=1)["Items"]
        return read_text(items[0], SORT_KEY) if items else ""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _query_page(self, kind: str, after: str = "", **options: Any) -> Any:  # noqa: ANN401 (boto3's types)
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
        """Raise failures of AWS as errors of icemirror."""
        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise classify_error(self.table, error) from error


def item_key(kind: str, key: str) -> dict[str, dict[str, str]]:
    """Return the key of an item."""
    return {PARTITION_KEY: {"S": kind}, SORT_KEY: {"S": key}}


def read_text(item: Item, name: str) -> str:
    """Return a text attribute; empty if it is missing or not text."""
    return str(item.get(name, {}).get("S", ""))


def pause(attempt: int) -> None:
    """Sleep a random time: spreads colliding writers and relieves a throttled table."""
    time.sleep(pause_seconds(attempt, _FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS))
