"""The DynamoDB table of the state: its client, its key, and what its failures mean."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from icemirror.aws_refusals import code_of, is_refused, making_client, text_of
from icemirror.errors import IcemirrorError, Invalid, Transient
from icemirror.settings.trigger import DynamoDbState

PARTITION_KEY, SORT_KEY = "kind", "key"
EXPIRY = "expires_at"
"""The attribute for DynamoDB's time to live; without it letters go when others come."""

_ATTEMPTS = 4
_CONNECT_SECONDS, _READ_SECONDS = 3.0, 5.0
_CONDITION_FAILED = "ConditionalCheckFailedException"
_ACTIONS = "BatchGetItem, Query, PutItem, UpdateItem and DeleteItem"


def open_client(state: DynamoDbState, attempts: int = _ATTEMPTS) -> Any:  # noqa: ANN401 (boto3 makes it at run time)
    """A client that repeats what was throttled or not answered, a few times."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
    )
    with making_client("trigger.state", "region"):
        return boto3.session.Session().client(
            "dynamodb", region_name=state.region, endpoint_url=state.endpoint, config=config
        )


def condition_failed(error: ClientError) -> bool:
    """Another writer was quicker."""
    return code_of(error) == _CONDITION_FAILED


def named_error(table: str, error: BotoCoreError | ClientError) -> IcemirrorError:
    """The failure of a request, named for what to do about it."""
    if is_refused(error):
        return Invalid(
            f"DynamoDB refused to show or change the state {table} ({code_of(error) or error}): it needs valid "
            f"credentials, and on that table the actions {_ACTIONS}"
        )
    if isinstance(error, ClientError):
        return _named_answer(table, code_of(error), text_of(error))
    # No connection, no answer in time, half of an answer.
    return Transient(f"DynamoDB did not answer about the state {table}: {type(error).__name__}")


def _named_answer(table: str, code: str, message: str) -> IcemirrorError:
    if code == "ResourceNotFoundException":
        return Invalid(
            f"there is no DynamoDB table {table} here: create it in this region, with the text keys "
            f"`{PARTITION_KEY}` (partition) and `{SORT_KEY}` (sort); docs/trigger.md has the command"
        )
    if code == "ValidationException" and "size" in message:
        return Invalid(
            f"a row of the state {table} is larger than DynamoDB takes (400 KB): `icemirror status` names the "
            "table with a very long error; `icemirror resume` clears it"
        )
    if code == "ValidationException":
        return Invalid(
            f"the DynamoDB table {table} is not made for the state ({message}): its keys must be the texts "
            f"`{PARTITION_KEY}` (partition) and `{SORT_KEY}` (sort); give the state a table of its own"
        )
    return Transient(f"DynamoDB could not serve the state {table} ({code}); try again")
