"""The state's DynamoDB table: its client, its key, and the meaning of its failures."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from icemirror.aws_errors import aws_error_code, aws_error_message, is_refused, translate_client_errors
from icemirror.errors import IcemirrorError, Invalid, Transient
from icemirror.settings.trigger import DynamoDbState

PARTITION_KEY, SORT_KEY = "kind", "key"
EXPIRY = "expires_at"
"""The attribute for DynamoDB's time to live. It is optional: new letters displace old ones anyway."""

_ATTEMPTS = 4
_CONNECT_SECONDS, _READ_SECONDS = 3.0, 5.0
_CONDITION_FAILED = "ConditionalCheckFailedException"
_ACTIONS = "BatchGetItem, Query, PutItem, UpdateItem and DeleteItem"


def open_client(state: DynamoDbState, attempts: int = _ATTEMPTS) -> Any:  # noqa: ANN401 (built by boto3)
    """Open a client that retries throttled and unanswered requests a few times."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
    )
    with translate_client_errors("trigger.state", "region"):
        return boto3.session.Session().client(
            "dynamodb", region_name=state.region, endpoint_url=state.endpoint, config=config
        )


def condition_failed(error: ClientError) -> bool:
    """Return whether another writer wrote first."""
    return aws_error_code(error) == _CONDITION_FAILED


def classify_error(table: str, error: BotoCoreError | ClientError) -> IcemirrorError:
    """Return the failure of a request as an error with its remedy."""
    if is_refused(error):
        return Invalid(
            f"DynamoDB refused access to the state ({aws_error_code(error) or error}): check the credentials, and "
            f"grant {_ACTIONS} on DynamoDB table {table}"
        )
    if isinstance(error, ClientError):
        return _classify_response(table, aws_error_code(error), aws_error_message(error))
    # No connection, a timeout, an incomplete response.
    return Transient(f"DynamoDB did not respond ({type(error).__name__}); try again. DynamoDB table: {table}")


def _classify_response(table: str, code: str, message: str) -> IcemirrorError:
    if code == "ResourceNotFoundException":
        return Invalid(
            f"the state's DynamoDB table does not exist in this region: create it with the string keys "
            f"`{PARTITION_KEY}` (partition) and `{SORT_KEY}` (sort), see docs/how-to/state.md. DynamoDB table: {table}"
        )
    if code == "ValidationException" and "size" in message:
        return Invalid(
            "a state row exceeds DynamoDB's limit of 400 KB: find the table with a very long error in `icemirror "
            f"status`, and clear it with `icemirror resume`. DynamoDB table: {table}"
        )
    if code == "ValidationException":
        return Invalid(
            f"the DynamoDB table has the wrong keys for the state ({message}): use a separate table with the string "
            f"keys `{PARTITION_KEY}` (partition) and `{SORT_KEY}` (sort). DynamoDB table: {table}"
        )
    return Transient(f"DynamoDB failed ({code}); try again. DynamoDB table: {table}")
