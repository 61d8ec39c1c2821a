"""`POST /notify`: a commit event or an Iceberg `CommitReport`, authenticated by a token."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import assert_never

from icemirror.http.routes import HttpPost, HttpResponse
from icemirror.telemetry import metric_names
from trigger.dispatch.ingest import Accepted, EventIngest, NotStored
from trigger.sources.event_json import MAX_EVENT_BYTES
from trigger.sources.refusal import UNREGISTERED_REASONS, Refusal, RefusalReason

_SCHEME = "bearer"


@dataclass(frozen=True)
class NotifyHandler:
    """Handles posts. Without a token only this machine may post; `is_local`: the bound address is loopback."""

    ingest: EventIngest
    token: str | None
    is_local: bool
    wake: Callable[[], None]

    def __call__(self, post: HttpPost) -> HttpResponse:
        """Return 202 when the notice is stored. Errors are returned to the sender and never become dead letters."""
        if not self._is_allowed(post):
            self._count_refusal(RefusalReason.WRONG_TOKEN)
            return _text_response(HTTPStatus.UNAUTHORIZED, "send the token: Authorization: Bearer …")
        if post.length is None:
            return _text_response(HTTPStatus.LENGTH_REQUIRED, "send the Content-Length")
        if post.length > MAX_EVENT_BYTES:
            self._count_refusal(RefusalReason.TOO_LARGE)
            return _text_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_EVENT_BYTES} bytes")
        (outcome,) = self.ingest.accept([post.read()])
        match outcome:
            case Accepted(tables=tables):
                self.wake()
                return HttpResponse(
                    HTTPStatus.ACCEPTED, json.dumps({"tables": sorted(tables)}).encode(), "application/json"
                )
            case Refusal(reason, message):
                is_unregistered = reason in UNREGISTERED_REASONS
                status = HTTPStatus.NOT_FOUND if is_unregistered else HTTPStatus.BAD_REQUEST
                return _text_response(status, message)
            case NotStored():
                return _text_response(HTTPStatus.SERVICE_UNAVAILABLE, "not stored: send it again")
        assert_never(outcome)

    def _is_allowed(self, post: HttpPost) -> bool:
        if self.token is None:
            return self.is_local
        scheme, _, token = post.authorization.partition(" ")
        # In constant time: the duration must not reveal how much of the token is correct.
        is_valid = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self.token.encode())
        return is_valid and scheme.lower() == _SCHEME

    def _count_refusal(self, reason: RefusalReason) -> None:
        self.ingest.dispatcher.metrics.count(metric_names.REFUSED, reason=reason)


def _text_response(status: HTTPStatus, text: str) -> HttpResponse:
    return HttpResponse(status, f"{text}\n".encode())
