"""The DynamoDB table of the state: its client, its key, and what its failures mean."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)

from icemirror.errors import BadConfig, IcemirrorError, Invalid, Transient
from icemirror.settings.trigger import DynamoDbState

PARTITION_KEY, SORT_KEY = "kind", "key"
EXPIRY = "expires_at"
"""The attribute for DynamoDB's time to live; without it letters go when others come."""

_ATTEMPTS = 4
_CONNECT_SECONDS, _READ_SECONDS = 3.0, 5.0
_CONDITION_FAILED = "ConditionalCheckFailedException"
_ACTIONS = "BatchGetItem, Query, PutItem, UpdateItem and DeleteItem"
_REFUSED = (
    "AccessDenied",
    "ExpiredToken",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignature",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "SignatureDoesNotMatch",
    "UnrecognizedClient",
)


def open_client(state: DynamoDbState, attempts: int = _ATTEMPTS) -> Any:  # noqa: ANN401 (boto3 makes it at run time)
    """A client that repeats what was throttled or not answered, a few times."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
    )
    try:
        return boto3.session.Session().client(
            "dynamodb", region_name=state.region, endpoint_url=state.endpoint, config=config
        )
    except NoRegionError:
        raise BadConfig(
            "trigger.state: give region, or set AWS_REGION: DynamoDB is one for each region"
        ) from None
    except (BotoCoreError, ValueError) as error:  # (ValueError: an endpoint that is no address)
        raise BadConfig(f"trigger.state: DynamoDB cannot be used: {error}") from error


def condition_failed(error: ClientError) -> bool:
    """Another writer was quicker."""
    return _code(error) == _CONDITION_FAILED


def named_error(table: str, error: BotoCoreError | ClientError) -> IcemirrorError:
    """The failure of a request, named for what to do about it."""
    match error:
        case NoCredentialsError() | PartialCredentialsError() | ProfileNotFound():
            return Invalid(f"DynamoDB cannot be asked for the state {table}: {error}; give AWS credentials")
        case ClientError():
            return _named_answer(table, _code(error), _message(error))
        case _:  # no connection, no answer in time, half of an answer
            return Transient(f"DynamoDB did not answer about the state {table}: {type(error).__name__}")


def _named_answer(table: str, code: str, message: str) -> IcemirrorError:
    if code == "ResourceNotFoundException":
        return Invalid(
            f"there is no DynamoDB table {table} here: create it in this region, with the text keys "
            f"`{PARTITION_KEY}` (partition) and `{SORT_KEY}` (sort); docs/trigger.md has the command"
        )
    if code.startswith(_REFUSED):
        return Invalid(
            f"DynamoDB refused to show or change the state {table} ({code}): it needs valid credentials, and "
            f"on that table the actions {_ACTIONS}"
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


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", ""))
