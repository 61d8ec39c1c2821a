"""`POST /notify`: a commit event or an Iceberg `CommitReport`, authenticated by a token."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from icemirror.errors import Transient
from icemirror.http.server import HttpPost, HttpResponse
from icemirror.telemetry import names
from trigger.dispatch.ingest import Accepted, Ingest
from trigger.sources.event_json import MAX_EVENT_BYTES
from trigger.sources.refusal import NOT_REGISTERED, EventRefused, RefusalReason

_SCHEME = "bearer"


@dataclass(frozen=True)
class Notify:
    """Handles posts. Without a token only this machine may post; `is_local`: the bound address is loopback."""

    ingest: Ingest
    token: str | None
    is_local: bool
    wake: Callable[[], None]

    def __call__(self, post: HttpPost) -> HttpResponse:
        """Return 202 when the notice is stored. Errors are returned to the sender and never become dead letters."""
        if not self._is_allowed(post):
            self._count(RefusalReason.WRONG_TOKEN)
            return _text_response(HTTPStatus.UNAUTHORIZED, "send the token: Authorization: Bearer …")
        if post.length is None:
            return _text_response(HTTPStatus.LENGTH_REQUIRED, "send the Content-Length")
        if post.length > MAX_EVENT_BYTES:
            self._count(RefusalReason.TOO_LARGE)
            return _text_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_EVENT_BYTES} bytes")
        (outcome,) = self.ingest.accept([post.read()])
        match outcome:
            case Accepted(tables=tables):
                self.wake()
                return HttpResponse(
                    HTTPStatus.ACCEPTED, json.dumps({"tables": sorted(tables)}).encode(), "application/json"
                )
            case EventRefused(reason=reason) if reason in NOT_REGISTERED:
                return _text_response(HTTPStatus.NOT_FOUND, str(outcome))
            case Transient():
                return _text_response(HTTPStatus.SERVICE_UNAVAILABLE, "not stored: send it again")
            case _:
                return _text_response(HTTPStatus.BAD_REQUEST, str(outcome))

    def _is_allowed(self, post: HttpPost) -> bool:
        if self.token is None:
            return self.is_local
        scheme, _, token = post.authorization.partition(" ")
        # In constant time: the duration must not reveal how much of the token is right.
        right = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self.token.encode())
        return right and scheme.lower() == _SCHEME

    def _count(self, reason: RefusalReason) -> None:
        self.ingest.fleet.metrics.count(names.REFUSED, reason=reason)


def _text_response(status: HTTPStatus, text: str) -> HttpResponse:
    return HttpResponse(status, f"{text}\n".encode())
