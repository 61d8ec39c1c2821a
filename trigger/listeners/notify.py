"""`POST /notify`: a commit event or an Iceberg `CommitReport`, from whoever knows the token."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from icemirror.errors import Transient
from icemirror.telemetry import names
from icemirror.telemetry.server import Answer, Post
from trigger.intake import Intake, Taken
from trigger.sources.body import MOST_BYTES
from trigger.sources.refused import NOT_OURS, Reason, Refused

_SCHEME = "bearer"


@dataclass(frozen=True)
class Notify:
    """Answers posts. Without a token only this machine may send, which the address that it listens on decides."""

    intake: Intake
    token: str | None
    is_local: bool
    wake: Callable[[], None]

    def __call__(self, post: Post) -> Answer:
        """202 when the notice is stored. The sender hears what is wrong: nothing of this becomes a dead letter."""
        if not self._may(post):
            self._count(Reason.WRONG_TOKEN)
            return _said(HTTPStatus.UNAUTHORIZED, "show the token: Authorization: Bearer …")
        if post.length is None:
            return _said(HTTPStatus.LENGTH_REQUIRED, "give the Content-Length")
        if post.length > MOST_BYTES:
            self._count(Reason.TOO_LARGE)
            return _said(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BYTES} bytes")
        (outcome,) = self.intake.take([post.read()])
        match outcome:
            case Taken(tables=tables):
                self.wake()
                return Answer(
                    HTTPStatus.ACCEPTED, json.dumps({"tables": sorted(tables)}).encode(), "application/json"
                )
            case Refused(reason=reason) if reason in NOT_OURS:
                return _said(HTTPStatus.NOT_FOUND, str(outcome))
            case Transient():
                return _said(HTTPStatus.SERVICE_UNAVAILABLE, "it could not be stored: send it again")
            case _:
                return _said(HTTPStatus.BAD_REQUEST, str(outcome))

    def _may(self, post: Post) -> bool:
        if self.token is None:
            return self.is_local
        scheme, _, shown = post.authorization.partition(" ")
        # In constant time: how long a refusal takes must not tell how much of the token was right.
        right = hmac.compare_digest(shown.strip().encode("utf-8", "replace"), self.token.encode())
        return right and scheme.lower() == _SCHEME

    def _count(self, reason: Reason) -> None:
        self.intake.fleet.metrics.count(names.REFUSED, reason=reason)


def _said(status: HTTPStatus, text: str) -> Answer:
    return Answer(status, f"{text}\n".encode())
