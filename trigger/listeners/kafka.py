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
from trigger.dispatch.ingest import NotStored
from trigger.listeners.kafka_login import connection_arguments
from trigger.listeners.listener import (
    EventSink,
    backoff_seconds,
    describe_failure,
    log_listener_failure,
    pause,
)
from trigger.sources.kafka_records import decode_kafka_record

_BATCH_RECORDS = 500
_POLL_MILLISECONDS = 500
_REBALANCE_SECONDS = 20.0
_SESSION_MILLISECONDS = 10_000  # a member that died without leaving keeps its partitions this long
_PROBE_SECONDS = 10.0  # after this long without a record, the brokers are probed
_PROBE_TIMEOUT_SECONDS = 10.0
_COMMIT_SECONDS = 20.0  # aiokafka retries forever while no broker is reachable, and a stop would wait for it
_CLOSE_SECONDS = 10.0

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
    """A member of the consumer group; it leaves the group as soon as it is stopped."""

    name = "kafka"

    def __init__(self, source: KafkaSource, folder: Path, sink: EventSink) -> None:
        self._source, self._folder, self._sink = source, folder, sink
        self._batch_lock = asyncio.Lock()
        self._received_at = 0.0
        self._problem = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Read the topics; retry while the brokers are unreachable."""
        failures = 0
        while not stop.is_set():
            try:
                await self._consume(stop)
                failures = 0
            except _REFUSED as error:
                raise BadConfig(
                    f"trigger.sources.kafka: the brokers refused the login; check it and its permissions: {error}"
                ) from error
            except (KafkaError, OSError, Transient) as error:
                self._sink.record_heartbeat(self.name, False, describe_failure(error))
                log_listener_failure(self.name, error)
                failures += 1
                await pause(stop, backoff_seconds(failures))

    async def _consume(self, stop: asyncio.Event) -> None:
        consumer = AIOKafkaConsumer(
            **connection_arguments(self._source, self._folder),
            group_id=self._source.group_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=_SESSION_MILLISECONDS,
            heartbeat_interval_ms=_SESSION_MILLISECONDS // 4,
        )
        consumer.subscribe(list(self._source.topics), listener=_Rebalance(self._batch_lock))
        try:
            await consumer.start()
            log.info("listening to Kafka", topics=list(self._source.topics), group=self._source.group_id)
            probe = asyncio.create_task(self._probe_brokers(consumer))
            try:
                await self._listen(consumer, stop)
            finally:
                probe.cancel()
                await asyncio.wait([probe])
        finally:
            await _close(consumer)

    async def _listen(self, consumer: Any, stop: asyncio.Event) -> None:  # noqa: ANN401 (aiokafka has no types)
        self._received_at, self._problem = time.monotonic(), ""
        while not stop.is_set():
            batch = await consumer.getmany(timeout_ms=_POLL_MILLISECONDS, max_records=_BATCH_RECORDS)
            if batch:
                self._received_at, self._problem = time.monotonic(), ""
            self._sink.record_heartbeat(self.name, not self._problem, self._problem)
            async with self._batch_lock:
                if batch and await self._store(batch, stop):
                    await self._commit(consumer, batch)

    async def _probe_brokers(self, consumer: Any) -> None:  # noqa: ANN401 (aiokafka has no types)
        """Probe the brokers during silence: aiokafka returns no record and no error while no broker is reachable."""
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            if time.monotonic() - self._received_at < _PROBE_SECONDS:
                continue
            try:
                async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
                    assignment = consumer.assignment()
                    await (consumer.end_offsets(assignment) if assignment else consumer.topics())
            except Exception as error:  # of any type: there was no response
                if not self._problem:
                    log.warning("brokers unreachable", reason=describe_failure(error))
                self._problem = f"the brokers are unreachable ({type(error).__name__})"
                # A listener that waits for the brokers does not hang: a restart would not help.
                self._sink.record_heartbeat(self.name, False, self._problem)
            else:
                if self._problem:
                    log.info("brokers reachable again")
                self._problem = ""

    async def _store(self, batch: Batch, stop: asyncio.Event) -> bool:
        """Ingest the records, with retries; return False if the listener was stopped before all were stored."""
        unstored = [
            body
            for records in batch.values()
            for record in records
            if (body := decode_kafka_record(dict(record.headers), record.value)) is not None
        ]
        failures = 0
        while unstored:
            outcomes = await self._sink.accept(self.name, unstored)
            unstored = [
                body
                for body, outcome in zip(unstored, outcomes, strict=True)
                if isinstance(outcome, NotStored)
            ]
            if unstored:
                failures += 1
                log_listener_failure(self.name, Transient("some notices could not be stored"))
                self._sink.record_heartbeat(self.name, False, "some notices could not be stored")
                await pause(stop, backoff_seconds(failures))
                if stop.is_set():
                    return False
        return True

    async def _commit(self, consumer: Any, batch: Batch) -> None:  # noqa: ANN401 (aiokafka has no types)
        """Commit the offsets. A partition that moved to another member is read again there, which is harmless."""
        offsets = {partition: records[-1].offset + 1 for partition, records in batch.items()}
        try:
            async with asyncio.timeout(_COMMIT_SECONDS):
                await consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError):
            log.info("partitions moved before the offset commit", partitions=len(offsets))


async def _close(consumer: Any) -> None:  # noqa: ANN401 (aiokafka has no types)
    """Leave the group and close the connections, as far as possible.

    Each step is a separate task: while no broker is reachable, aiokafka lets the cancellation of an internal task
    escape, which would cancel this one.
    """
    for close in (consumer.stop, consumer._client.close):
        task = asyncio.create_task(close())
        await asyncio.wait([task], timeout=_CLOSE_SECONDS)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=1.0)
        if not task.done() or task.cancelled():
            continue
        if (error := task.exception()) is None:
            return
        log.warning("Kafka consumer did not close cleanly", reason=f"{type(error).__name__}: {error}")


class _Rebalance(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Releases partitions only between two batches."""

    def __init__(self, batch_lock: asyncio.Lock) -> None:
        self._batch_lock = batch_lock

    async def on_partitions_revoked(self, revoked: object) -> None:
        """Wait for the current batch, but not until the group considers this member dead."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._batch_lock.acquire(), _REBALANCE_SECONDS)
            self._batch_lock.release()

    async def on_partitions_assigned(self, assigned: object) -> None:
        """Do nothing: reading continues at the committed offsets."""
