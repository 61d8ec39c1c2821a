"""Notifications from an SQS queue, by long polls. A message is deleted when its notice is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from icemirror.aws_refusals import code_of, is_refused, making_client
from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.settings.trigger import SqsSource
from trigger.listeners.listener import Desk, backoff, pause, reason_of, say_failed

_WAIT_SECONDS = 5  # also how long a stop may take
_BATCH = 10
_NO_QUEUE = ("NonExistentQueue", "QueueDoesNotExist")

Message = Mapping[str, Any]  # of boto3's making


class SqsListener:
    """Polls one queue."""

    name = "sqs"

    def __init__(self, source: SqsSource, desk: Desk, client: Any = None) -> None:  # noqa: ANN401 (as above)
        self._url, self._desk = source.queue_url, desk
        self._client = client or _open_client(source)

    async def run(self, stop: asyncio.Event) -> None:
        """Polls; where SQS is away, tries again."""
        failures = 0
        while not stop.is_set():
            try:
                await self._poll()
                failures = 0
            except Invalid:
                raise  # the state itself cannot be used
            except Exception as error:
                code = code_of(error)
                if is_refused(error) or any(word in code for word in _NO_QUEUE):
                    raise BadConfig(
                        f"trigger.sources.sqs: {code or error}: check queue_url and the permissions"
                    ) from error
                self._desk.beat(self.name, False, reason_of(error))
                say_failed(self.name, error)
                failures += 1
                await pause(stop, backoff(failures))

    async def _poll(self) -> None:
        answer = await asyncio.to_thread(
            self._client.receive_message,
            QueueUrl=self._url,
            MaxNumberOfMessages=_BATCH,
            WaitTimeSeconds=_WAIT_SECONDS,
        )
        self._desk.beat(self.name, True, "")
        messages: Sequence[Message] = answer.get("Messages", [])
        if messages:
            bodies = [str(message["Body"]).encode("utf-8", "surrogatepass") for message in messages]
            outcomes = await self._desk.take(self.name, bodies)
            # What could not be stored comes again when it is visible again.
            pairs = zip(messages, outcomes, strict=True)
            await self._delete([message for message, outcome in pairs if not isinstance(outcome, Transient)])
            # Without a pause a deep queue would be gone through, and each message counted as delivered, for nothing.
            if failed := [outcome for outcome in outcomes if isinstance(outcome, Transient)]:
                raise failed[0]

    async def _delete(self, messages: Sequence[Message]) -> None:
        if messages:
            entries = [
                {"Id": str(at), "ReceiptHandle": one["ReceiptHandle"]} for at, one in enumerate(messages)
            ]
            await asyncio.to_thread(self._client.delete_message_batch, QueueUrl=self._url, Entries=entries)


def _open_client(source: SqsSource) -> Any:  # noqa: ANN401 (as above)
    try:
        import boto3
        from botocore.config import Config
    except ModuleNotFoundError:
        raise BadConfig("trigger.sources.sqs needs boto3: pip install 'icemirror[aws]'") from None
    # One that does not answer is found out soon, and does not keep a stop waiting.
    limits = Config(
        connect_timeout=3,
        read_timeout=_WAIT_SECONDS + 5,
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    with making_client("trigger.sources.sqs", "region"):
        return boto3.client("sqs", region_name=source.region, endpoint_url=source.endpoint, config=limits)
