"""Commit events from Kafka. An offset is committed only when the notices of all records before it are stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    CommitFailedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

from icemirror.errors import BadConfig, Transient
from icemirror.settings.trigger import KafkaSource
from icemirror.telemetry.logs import get_log
from trigger.listeners.kafka_login import connection
from trigger.listeners.listener import Desk, backoff, pause, reason_of, say_failed
from trigger.sources.normalise import whole_event
from trigger.sources.refused import Refused

_BATCH = 500
_POLL_MILLISECONDS = 500
_REBALANCE_SECONDS = 20.0
_SESSION_MILLISECONDS = 10_000  # a member that died without leaving holds its partitions for so long
_ASK_SECONDS = 10.0  # after so long without a record the brokers are asked whether they are there
_ANSWER_SECONDS = 10.0
_COMMIT_SECONDS = 20.0  # aiokafka tries for ever where no broker is there, and a stop would wait for it
_LEAVE_SECONDS = 10.0

_REFUSED = (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    GroupAuthorizationFailedError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

log = get_log(__name__)

Batch = Mapping[TopicPartition, Sequence[ConsumerRecord]]


class KafkaListener:
    """A member of the consumer group, until it is told to stop; then it leaves the group at once."""

    name = "kafka"

    def __init__(self, source: KafkaSource, folder: Path, desk: Desk) -> None:
        self._source, self._folder, self._desk = source, folder, desk
        self._busy = asyncio.Lock()
        self._heard_at = 0.0
        self._silence = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Reads the topics; where the brokers are away, tries again."""
        failures = 0
        while not stop.is_set():
            try:
                await self._consume(stop)
                failures = 0
            except _REFUSED as error:
                raise BadConfig(f"trigger.sources.kafka: the brokers refused us: {error}") from error
            except (KafkaError, OSError, Transient) as error:
                self._desk.beat(self.name, False, reason_of(error))
                say_failed(self.name, error)
                failures += 1
                await pause(stop, backoff(failures))

    async def _consume(self, stop: asyncio.Event) -> None:
        consumer = AIOKafkaConsumer(
            **connection(self._source, self._folder),
            group_id=self._source.group_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=_SESSION_MILLISECONDS,
            heartbeat_interval_ms=_SESSION_MILLISECONDS // 4,
        )
        consumer.subscribe(list(self._source.topics), listener=_Rebalance(self._busy))
        try:
            await consumer.start()
            log.info("listening to Kafka", topics=list(self._source.topics), group=self._source.group_id)
            asking = asyncio.create_task(self._ask_brokers(consumer))
            try:
                await self._listen(consumer, stop)
            finally:
                asking.cancel()
                await asyncio.wait([asking])
        finally:
            await _leave(consumer)

    async def _listen(self, consumer: Any, stop: asyncio.Event) -> None:  # noqa: ANN401 (aiokafka has no types)
        self._heard_at, self._silence = time.monotonic(), ""
        while not stop.is_set():
            batch = await consumer.getmany(timeout_ms=_POLL_MILLISECONDS, max_records=_BATCH)
            if batch:
                self._heard_at, self._silence = time.monotonic(), ""
            self._desk.beat(self.name, not self._silence, self._silence)
            async with self._busy:
                if batch and await self._take(batch, stop):
                    await self._commit(consumer, batch)

    async def _ask_brokers(self, consumer: Any) -> None:  # noqa: ANN401 (as above)
        """Finds out whether it is quiet or dead: aiokafka hands out nothing, and no error, while no broker is there."""
        while True:
            await asyncio.sleep(_ASK_SECONDS)
            if time.monotonic() - self._heard_at < _ASK_SECONDS:
                continue
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    mine = consumer.assignment()
                    await (consumer.end_offsets(mine) if mine else consumer.topics())
            except Exception as error:  # of aiokafka's: whatever it says, there was no answer
                if not self._silence:
                    log.warning("the brokers do not answer", reason=reason_of(error))
                self._silence = f"the brokers do not answer ({type(error).__name__})"
                # Also where the listener waits for them: it does not hang, and a new one would not help.
                self._desk.beat(self.name, False, self._silence)
            else:
                if self._silence:
                    log.info("the brokers answer again")
                self._silence = ""

    async def _take(self, batch: Batch, stop: asyncio.Event) -> bool:
        """Stores what the records tell, as often as it takes; False if it was told to stop before that was done."""
        waiting = [
            body for records in batch.values() for record in records if (body := _body(record)) is not None
        ]
        failures = 0
        while waiting:
            outcomes = await self._desk.take(self.name, waiting)
            waiting = [
                body
                for body, outcome in zip(waiting, outcomes, strict=True)
                if isinstance(outcome, Transient)
            ]
            if waiting:
                failures += 1
                say_failed(self.name, Transient("some notices could not be stored"))
                self._desk.beat(self.name, False, "some notices could not be stored")
                await pause(stop, backoff(failures))
                if stop.is_set():
                    return False
        return True

    async def _commit(self, consumer: Any, batch: Batch) -> None:  # noqa: ANN401 (aiokafka has no types)
        """Commits what was stored. A partition that went to another member is read again there, which does no harm."""
        offsets = {partition: records[-1].offset + 1 for partition, records in batch.items()}
        try:
            async with asyncio.timeout(_COMMIT_SECONDS):
                await consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError):
            log.info("partitions moved to another member before the commit", partitions=len(offsets))


async def _leave(consumer: Any) -> None:  # noqa: ANN401 (aiokafka has no types)
    """Leaves the group and lets go of the connections, as far as that can be done.

    As a task of its own: where no broker is there, aiokafka lets the end of one of its tasks out as if we were
    cancelled, and stops midway.
    """
    for close in (consumer.stop, consumer._client.close):
        closing = asyncio.create_task(close())
        await asyncio.wait([closing], timeout=_LEAVE_SECONDS)
        if not closing.done():
            closing.cancel()
            await asyncio.wait([closing], timeout=1.0)
        if not closing.done() or closing.cancelled():
            continue
        if (error := closing.exception()) is None:
            return
        log.warning("Kafka was not left in order", reason=f"{type(error).__name__}: {error}")


class _Rebalance(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Gives partitions away only between two batches."""

    def __init__(self, busy: asyncio.Lock) -> None:
        self._busy = busy

    async def on_partitions_revoked(self, revoked: object) -> None:
        """Waits for the batch at hand, but not so long that the group counts us as dead."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._busy.acquire(), _REBALANCE_SECONDS)
            self._busy.release()

    async def on_partitions_assigned(self, assigned: object) -> None:
        """Nothing: the committed offsets say where to go on."""


def _body(record: ConsumerRecord) -> bytes | None:
    """The event of a record; None for a deletion mark, which is no event."""
    headers = dict(record.headers)
    if record.value is None and not headers:
        return None
    try:
        return whole_event(headers, record.value or b"")
    except Refused:
        return bytes(record.value or b"")
