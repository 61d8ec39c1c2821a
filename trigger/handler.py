"""The AWS Lambda function, `trigger.handler.handler`: normalise → notice → dispatch → launch.

Invoked by SQS (with `ReportBatchItemFailures`), by EventBridge, by topics of Kafka, and by a schedule. The
configuration is in the environment (`ICEMIRROR_CONFIG_PACKED`), or a file of the package that `ICEMIRROR_CONFIG` names.
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
from icemirror.telemetry.configured import open_report, start_logs
from icemirror.telemetry.logs import get_log
from icemirror.telemetry.metrics import NoMetrics
from trigger.due import dispatch_when_due
from trigger.intake import Intake, Outcome, Taken
from trigger.sources.lambda_kafka import bodies_of
from trigger.sources.refused import NOT_OURS, Refused
from trigger.standing import standing

if TYPE_CHECKING:
    from icemirror.settings import Settings

# An event that cannot be understood fails so often first: the queue's own dead letters may take it before us.
_LAST_RECEIPT = 3
_MARGIN_SECONDS = 5.0
_LOOK_SECONDS = 20.0
_SECONDS_UNLIMITED = 900.0

log = get_log(__name__)

# Any: events and answers are JSON of AWS's, the context is made by its runtime.
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Function:
    """The function once it is warm: clients, store and registry are made once and kept."""

    intake: Intake
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def answer(self, event: Json, seconds_left: float) -> dict[str, Any]:
        """What an invocation comes to; raises where Lambda should deliver the event again."""
        ends_at = self.clock() + seconds_left - _MARGIN_SECONDS
        match event:
            case {"Records": [{"eventSource": "aws:sqs"}, *_] as messages}:
                failed = self._take_messages(messages)
                self._dispatch(ends_at)
                return {"batchItemFailures": [{"itemIdentifier": one} for one in failed]}
            case {"eventSource": "aws:kafka" | "SelfManagedKafka", "records": dict(partitions)}:
                tables = self._take_records(partitions)
                self._dispatch(ends_at)
                return {"tables": sorted(tables)}
            case {"source": "aws.events"} | {"icemirror": "sweep"}:
                return self._sweep(ends_at)
            case _:
                tables = self._take_event(event)
                self._dispatch(ends_at)
                return {"tables": sorted(tables)}

    def _take_messages(self, messages: Sequence[Json]) -> list[str]:
        """The ids of the messages that SQS shall deliver again: those, and no others, have failed."""
        outcomes = self.intake.take([_body(message) for message in messages])
        pairs = zip(messages, outcomes, strict=True)
        return [message["messageId"] for message, outcome in pairs if self._fails(message, outcome)]

    def _fails(self, message: Json, outcome: Outcome) -> bool:
        match outcome:
            case Taken():
                return False
            case Refused(reason=reason) if reason in NOT_OURS:
                return False
            case Refused() if (
                int(message.get("attributes", {}).get("ApproximateReceiveCount", 1)) >= _LAST_RECEIPT
            ):
                self.intake.bury("sqs", _body(message), outcome)
                return False
            case _:
                log.warning("message failed", message_id=message["messageId"], reason=str(outcome))
                return True

    def _take_records(self, partitions: Json) -> frozenset[str]:
        """Lambda delivers all of them again where one could not be stored."""
        bodies = bodies_of(partitions)
        tables: set[str] = set()
        for body, outcome in zip(bodies, self.intake.take(bodies), strict=True):
            match outcome:
                case Taken():
                    tables |= outcome.tables
                case Refused():
                    self.intake.bury("kafka", body, outcome)
                case _:
                    raise outcome
        return frozenset(tables)

    def _take_event(self, event: Json) -> frozenset[str]:
        body = json.dumps(event).encode()
        (outcome,) = self.intake.take([body])
        match outcome:
            case Taken(tables=tables):
                return tables
            case Refused():
                self.intake.bury("eventbridge", body, outcome)
                return frozenset()
            case _:
                raise outcome

    def _sweep(self, ends_at: float) -> dict[str, Any]:
        fleet = self.intake.fleet
        fleet.registry.refresh(min(self._left(ends_at), _LOOK_SECONDS))
        if fleet.registry.problem is not None:
            log.warning("looking for new changelogs failed", reason=str(fleet.registry.problem))
        rows = fleet.sweep(min(self._left(ends_at), _LOOK_SECONDS))
        names = [table.name for table in fleet.registry.tables]
        log.info(
            "swept", **standing([rows.tables[name] for name in names if name in rows.tables], fleet.clock())
        )
        self._stay(ends_at)
        return {"tables": sorted(names)}

    def _dispatch(self, ends_at: float) -> None:
        try:
            self._stay(ends_at)
        except IcemirrorError as error:  # what was noticed is stored: the next invocation dispatches
            log.warning("dispatch failed", reason=str(error))

    def _stay(self, ends_at: float) -> None:
        """Stays for the quiet period, so that the launch need not wait for the next sweep."""
        fleet = self.intake.fleet
        dispatch_when_due(fleet, min(self._left(ends_at), fleet.policy.max_wait_seconds), self.sleep)

    def _left(self, ends_at: float) -> float:
        return max(0.0, ends_at - self.clock())


def handler(event: Json, context: object) -> dict[str, Any]:
    """The entry point."""
    try:
        return _function().answer(event, _seconds_left(context))
    except Exception as error:
        log.failure("invocation failed", error)
        with suppress(Exception):  # where the configuration itself cannot be read, nobody knows whom to tell
            _report()(error)
        raise


@cache
def _function() -> Function:
    from icemirror.state.configured import open_store
    from trigger.wiring import build_fleet

    settings = _settings()
    logging.getLogger().handlers.clear()  # the runtime's own would write every line a second time
    start_logs(settings)
    store = open_store(settings)
    return Function(Intake(build_fleet(settings, store, NoMetrics(), os.environ)))


@cache
def _settings() -> Settings:
    # Reading the configuration takes more modules than all the rest: they load with it.
    from icemirror.settings import find_config, load_settings
    from icemirror.settings.packed import unpack_config

    # Of Lambda's folders the one to write in, and the same everywhere: a repeated launch must ask for the same.
    given = unpack_config(os.environ, Path(tempfile.gettempdir()))
    return load_settings(given or find_config(None, os.environ), os.environ)


@cache
def _report() -> Callable[[BaseException], None]:
    return open_report(_settings())


def _body(message: Json) -> bytes:
    return str(message.get("body", "")).encode("utf-8", "surrogatepass")


def _seconds_left(context: object) -> float:
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    return _SECONDS_UNLIMITED if remaining is None else remaining() / 1000
