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
from icemirror.telemetry.from_settings import open_report, start_logs
from icemirror.telemetry.logs import get_log
from icemirror.telemetry.metrics import NoMetrics
from trigger.dispatch.due import dispatch_when_due
from trigger.dispatch.ingest import Accepted, Ingest, Outcome
from trigger.sources.kafka_records import decode_lambda_records
from trigger.sources.refusal import NOT_REGISTERED, EventRefused
from trigger.status.fleet_summary import summarize_fleet

if TYPE_CHECKING:
    from icemirror.settings import Settings

# A refused message fails until then: the queue's own dead-letter queue may take it first.
_LAST_RECEIVE_COUNT = 3
_SAFETY_MARGIN_SECONDS = 5.0
_CATALOG_TIMEOUT_SECONDS = 20.0
_DEFAULT_SECONDS_LEFT = 900.0

log = get_log(__name__)

# Any: events and responses are AWS' JSON, its runtime makes the context.
Json = Mapping[str, Any]


def handler(event: Json, context: object) -> dict[str, Any]:
    """Handle one invocation: the entry point."""
    try:
        return _function().handle(event, _seconds_left(context))
    except Exception as error:
        log.failure("invocation failed", error)
        with suppress(Exception):  # without a readable configuration there is nowhere to report to
            _report()(error)
        raise


@dataclass(frozen=True)
class LambdaFunction:
    """The warm function: its clients, store and registry are kept between invocations."""

    ingest: Ingest
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def handle(self, event: Json, seconds_left: float) -> dict[str, Any]:
        """Return the response to an invocation. An exception makes Lambda deliver the event again."""
        ends_at = self.clock() + seconds_left - _SAFETY_MARGIN_SECONDS
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
        failed = [
            message["messageId"] for message, outcome in pairs if self._must_redeliver(message, outcome)
        ]
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}

    def _must_redeliver(self, message: Json, outcome: Outcome) -> bool:
        """Return whether SQS must deliver the message again; keep it as a dead letter after the last attempt."""
        receive_count = int(message.get("attributes", {}).get("ApproximateReceiveCount", 1))
        match outcome:
            case Accepted():
                return False
            case EventRefused(reason=reason) if reason in NOT_REGISTERED:
                return False
            case EventRefused() if receive_count >= _LAST_RECEIVE_COUNT:
                self.ingest.keep_dead_letter("sqs", _body(message), outcome)
                return False
            case _:
                log.warning("message failed", message_id=message["messageId"], reason=str(outcome))
                return True

    def _ingest_all(self, source: str, bodies: Sequence[bytes]) -> dict[str, Any]:
        """Ingest events that Lambda delivers again only together: raise if one could not be stored."""
        tables: set[str] = set()
        for body, outcome in zip(bodies, self.ingest.accept(bodies), strict=True):
            match outcome:
                case Accepted():
                    tables |= outcome.tables
                case EventRefused():
                    self.ingest.keep_dead_letter(source, body, outcome)
                case _:
                    raise outcome
        return {"tables": sorted(tables)}

    def _sweep(self, ends_at: float) -> dict[str, Any]:
        fleet = self.ingest.fleet
        fleet.registry.refresh(min(self._remaining_seconds(ends_at), _CATALOG_TIMEOUT_SECONDS))
        if fleet.registry.problem is not None:
            log.warning("changelog discovery failed", reason=str(fleet.registry.problem))
        rows = fleet.sweep(min(self._remaining_seconds(ends_at), _CATALOG_TIMEOUT_SECONDS))
        names = [table.name for table in fleet.registry.tables]
        known = [rows.tables[name] for name in names if name in rows.tables]
        log.info("swept", **summarize_fleet(known, fleet.clock()))
        self._dispatch(ends_at)
        return {"tables": sorted(names)}

    def _dispatch(self, ends_at: float) -> None:
        """Dispatch, and wait for the quiet period: the launch need not wait for the next sweep."""
        fleet = self.ingest.fleet
        dispatch_when_due(
            fleet, min(self._remaining_seconds(ends_at), fleet.policy.max_wait_seconds), self.sleep
        )

    def _remaining_seconds(self, ends_at: float) -> float:
        return max(0.0, ends_at - self.clock())


@cache
def _function() -> LambdaFunction:
    from icemirror.stores.from_settings import open_store
    from trigger.wiring import build_fleet

    settings = _settings()
    logging.getLogger().handlers.clear()  # the runtime's handler would write every line a second time
    start_logs(settings)
    store = open_store(settings)
    return LambdaFunction(Ingest(build_fleet(settings, store, NoMetrics(), os.environ)))


@cache
def _settings() -> Settings:
    # Imported here: reading the configuration loads more modules than all the rest.
    from icemirror.config_file.find import find_config
    from icemirror.config_file.load import load_settings
    from icemirror.config_file.packing import unpack_config

    # Lambda's writable folder, with the same path in every instance: a repeated launch sends the same request.
    unpacked = unpack_config(os.environ, Path(tempfile.gettempdir()))
    return load_settings(unpacked or find_config(None, os.environ), os.environ)


@cache
def _report() -> Callable[[BaseException], None]:
    return open_report(_settings())


def _body(message: Json) -> bytes:
    return str(message.get("body", "")).encode("utf-8", "surrogatepass")


def _seconds_left(context: object) -> float:
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    return _DEFAULT_SECONDS_LEFT if remaining is None else remaining() / 1000
