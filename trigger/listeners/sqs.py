"""Notifications of an SQS queue, by long polling. A message is deleted when its notice is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from icemirror.aws_errors import aws_error_code, is_refused, translate_client_errors
from icemirror.errors import BadConfig, Invalid
from icemirror.settings.trigger import SqsSource
from trigger.dispatch.ingest import NotStored
from trigger.listeners.listener import (
    EventSink,
    backoff_seconds,
    describe_failure,
    log_listener_failure,
    pause,
)

_LONG_POLL_SECONDS = 5  # also how long a stop may take
_BATCH_MESSAGES = 10
_NO_QUEUE = ("NonExistentQueue", "QueueDoesNotExist")

Message = Mapping[str, Any]  # created by boto3


class SqsListener:
    """Polls one queue."""

    name = "sqs"

    def __init__(self, source: SqsSource, sink: EventSink, client: Any = None) -> None:  # noqa: ANN401 (by boto3)
        self._url, self._sink = source.queue_url, sink
        self._client = client or _open_client(source)

    async def run(self, stop: asyncio.Event) -> None:
        """Poll the queue; retry while SQS is unreachable."""
        failures = 0
        while not stop.is_set():
            try:
                await self._poll()
                failures = 0
            except Invalid:
                raise  # the state itself cannot be used
            except Exception as error:
                code = aws_error_code(error)
                if is_refused(error) or any(word in code for word in _NO_QUEUE):
                    raise BadConfig(
                        f"trigger.sources.sqs: {code or error}: check queue_url and the permissions"
                    ) from error
                self._sink.record_heartbeat(self.name, False, describe_failure(error))
                log_listener_failure(self.name, error)
                failures += 1
                await pause(stop, backoff_seconds(failures))

    async def _poll(self) -> None:
        response = await asyncio.to_thread(
            self._client.receive_message,
            QueueUrl=self._url,
            MaxNumberOfMessages=_BATCH_MESSAGES,
            WaitTimeSeconds=_LONG_POLL_SECONDS,
        )
        self._sink.record_heartbeat(self.name, True, "")
        messages: Sequence[Message] = response.get("Messages", [])
        if messages:
            bodies = [str(message["Body"]).encode("utf-8", "surrogatepass") for message in messages]
            outcomes = await self._sink.accept(self.name, bodies)
            # A message that could not be stored is delivered again when it becomes visible.
            pairs = zip(messages, outcomes, strict=True)
            await self._delete([message for message, outcome in pairs if not isinstance(outcome, NotStored)])
            # Without a pause, every message of a deep queue would be received without effect, and its receive
            # count would rise.
            if failures := [outcome.error for outcome in outcomes if isinstance(outcome, NotStored)]:
                raise failures[0]

    async def _delete(self, messages: Sequence[Message]) -> None:
        if messages:
            entries = [
                {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
                for index, message in enumerate(messages)
            ]
            await asyncio.to_thread(self._client.delete_message_batch, QueueUrl=self._url, Entries=entries)


def _open_client(source: SqsSource) -> Any:  # noqa: ANN401 (boto3 creates it at run time)
    try:
        import boto3
        from botocore.config import Config
    except ModuleNotFoundError:
        raise BadConfig("trigger.sources.sqs needs boto3: pip install 'icemirror[aws]'") from None
    # Short timeouts: an unreachable service is detected soon and does not delay a stop.
    limits = Config(
        connect_timeout=3,
        read_timeout=_LONG_POLL_SECONDS + 5,
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    with translate_client_errors("trigger.sources.sqs", "region"):
        return boto3.client("sqs", region_name=source.region, endpoint_url=source.endpoint, config=limits)
