"""The AWS Lambda function, `trigger.handler.handler`: parse → notice → dispatch → launch.

SQS (with `ReportBatchItemFailures`), EventBridge, Kafka topics and a schedule invoke it. The configuration is in the
environment (`ICEMIRROR_CONFIG_PACKED`), or in a file of the package that `ICEMIRROR_CONFIG` names.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icemirror.errors import IcemirrorError
from icemirror.protocol.rows import TableRow
from icemirror.telemetry.logs import get_log
from icemirror.telemetry.metrics import NoMetrics
from icemirror.telemetry.start_telemetry import open_report, start_logs
from trigger.dispatch.ingest import Accepted, EventIngest, IngestOutcome, NotStored
from trigger.dispatch.launch_times import dispatch_when_due
from trigger.sources.kafka_records import decode_lambda_records
from trigger.sources.refusal import UNREGISTERED_REASONS, Refusal

if TYPE_CHECKING:
    from icemirror.settings import Settings

# Until this receive count a refused message fails, so that the queue's own dead-letter queue may take it first.
_LAST_RECEIVE_COUNT = 3
_SAFETY_MARGIN_SECONDS = 5.0
_CATALOG_TIMEOUT_SECONDS = 20.0
_DEFAULT_REMAINING_SECONDS = 900.0
RECENT_SECONDS = 900

log = get_log(__name__)

# Any: JSON of AWS; the context is created by Lambda's runtime.
Json = Mapping[str, Any]


def handler(event: Json, context: object) -> dict[str, Any]:
    """Return the response to one invocation: the entry point."""
    try:
        return _open_function().handle(event, _invocation_seconds(context))
    except Exception as error:
        log.failure("invocation failed", error)
        with suppress(Exception):  # without a readable configuration there is nowhere to report to
            _open_report()(error)
        raise


@dataclass(frozen=True)
class LambdaFunction:
    """The warm function: its clients, store and registry are kept between invocations."""

    ingest: EventIngest
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def handle(self, event: Json, remaining_seconds: float) -> dict[str, Any]:
        """Return the response to an invocation. An exception makes Lambda deliver the event again."""
        ends_at = self.clock() + remaining_seconds - _SAFETY_MARGIN_SECONDS
        match event:
            case {"source": "aws.events"} | {"icemirror": "sweep"}:
                return self._sweep(ends_at)
            case {"Records": [{"eventSource": "aws:sqs"}, *_] as messages}:
                response = self._ingest_messages(messages)
            case {"eventSource": "aws:kafka" | "SelfManagedKafka", "records": dict(partitions)}:
                response = self._ingest_all("kafka", decode_lambda_records(partitions))
            case _:
                response = self._ingest_all("eventbridge", [json.dumps(event).encode()])
        try:
            self._dispatch(ends_at)
        except IcemirrorError as error:  # the notices are stored: the next invocation dispatches
            log.warning("dispatch failed", reason=str(error))
        return response

    def _ingest_messages(self, messages: Sequence[Json]) -> dict[str, Any]:
        """Ingest SQS messages; return those that SQS must deliver again, and no others."""
        outcomes = self.ingest.accept([_body(message) for message in messages])
        pairs = zip(messages, outcomes, strict=True)
        failed_ids = [
            message["messageId"] for message, outcome in pairs if self._must_redeliver(message, outcome)
        ]
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed_ids]}

    def _must_redeliver(self, message: Json, outcome: IngestOutcome) -> bool:
        """Return whether SQS must deliver the message again; keep it as a dead letter after the last attempt."""
        receive_count = int(message.get("attributes", {}).get("ApproximateReceiveCount", 1))
        match outcome:
            case Accepted():
                return False
            case Refusal(reason=reason) if reason in UNREGISTERED_REASONS:
                return False
            case Refusal() if receive_count >= _LAST_RECEIVE_COUNT:
                self.ingest.keep_dead_letter("sqs", _body(message), outcome)
                return False
            case Refusal():
                failure = outcome.message
            case NotStored(error):
                failure = str(error)
        log.warning("message failed", message_id=message["messageId"], reason=failure)
        return True

    def _ingest_all(self, source: str, bodies: Sequence[bytes]) -> dict[str, Any]:
        """Ingest events that Lambda delivers again only together: raise if one could not be stored."""
        tables: set[str] = set()
        for body, outcome in zip(bodies, self.ingest.accept(bodies), strict=True):
            match outcome:
                case Accepted():
                    tables |= outcome.tables
                case Refusal():
                    self.ingest.keep_dead_letter(source, body, outcome)
                case NotStored(error):
                    raise error
        return {"tables": sorted(tables)}

    def _sweep(self, ends_at: float) -> dict[str, Any]:
        dispatcher = self.ingest.dispatcher
        dispatcher.registry.refresh(min(self._remaining_seconds(ends_at), _CATALOG_TIMEOUT_SECONDS))
        if dispatcher.registry.problem is not None:
            log.warning("changelog discovery failed", reason=str(dispatcher.registry.problem))
        rows = dispatcher.sweep(min(self._remaining_seconds(ends_at), _CATALOG_TIMEOUT_SECONDS))
        names = [table.name for table in dispatcher.registry.tables]
        table_rows = [rows.tables[name] for name in names if name in rows.tables]
        log.info("swept", **summarize_tables(table_rows, dispatcher.clock()))
        self._dispatch(ends_at)
        return {"tables": sorted(names)}

    def _dispatch(self, ends_at: float) -> None:
        """Dispatch, and wait for the quiet period: the launch need not wait for the next sweep."""
        dispatcher = self.ingest.dispatcher
        dispatch_when_due(
            dispatcher, min(self._remaining_seconds(ends_at), dispatcher.policy.max_wait_seconds), self.sleep
        )

    def _remaining_seconds(self, ends_at: float) -> float:
        return max(0.0, ends_at - self.clock())


@cache
def _open_function() -> LambdaFunction:
    from icemirror.stores.from_settings import open_store
    from trigger.wiring import build_dispatcher

    settings = _load_settings()
    logging.getLogger().handlers.clear()  # the runtime's handler would write every line a second time
    start_logs(settings)
    store = open_store(settings)
    return LambdaFunction(EventIngest(build_dispatcher(settings, store, NoMetrics(), os.environ)))


@cache
def _load_settings() -> Settings:
    # Imported here: reading the configuration loads more modules than everything else.
    from icemirror.config_file.find import find_config
    from icemirror.config_file.load import load_settings
    from icemirror.config_file.packing import unpack_config

    # Lambda's writable folder, with the same path in every instance: a repeated launch sends the same request.
    unpacked_path = unpack_config(os.environ, Path(tempfile.gettempdir()))
    return load_settings(unpacked_path or find_config(None, os.environ), os.environ)


@cache
def _open_report() -> Callable[[BaseException], None]:
    return open_report(_load_settings())


def _body(message: Json) -> bytes:
    return str(message.get("body", "")).encode("utf-8", "surrogatepass")


def _invocation_seconds(context: object) -> float:
    """Return how long Lambda lets this invocation run."""
    remaining_millis = getattr(context, "get_remaining_time_in_millis", None)
    return _DEFAULT_REMAINING_SECONDS if remaining_millis is None else remaining_millis() / 1000


def summarize_tables(rows: Sequence[TableRow], now: float) -> dict[str, float]:
    """Return the fields of the log line of a sweep, from which metrics are extracted.

    They are the counts of tables, of waiting and of quarantined ones, the longest recent turn and the longest wait.
    """
    waiting = [row for row in rows if row.dirty > row.covered and not row.paused]
    oldest_notice_at = min((row.first_dirty_at for row in waiting), default=now)
    turns = [row.last_run for row in rows if row.last_run and row.last_run.ended_at > now - RECENT_SECONDS]
    return {
        "tables": len(rows),
        "waiting": len(waiting),
        "quarantined": sum(row.quarantined for row in rows),
        "turn_seconds": round(max((turn.ended_at - turn.started_at for turn in turns), default=0.0), 3),
        "lag_seconds": round(max(0.0, now - oldest_notice_at), 3),  # a writer's clock may have been ahead
    }
