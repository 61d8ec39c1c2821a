"""Reasons for refusing an event."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from icemirror.errors import Invalid


class RefusalReason(StrEnum):
    """Values of the label `reason` in the metric of refused events."""

    TOO_LARGE = "too-large"
    TOO_DEEP = "too-deep"
    MALFORMED = "malformed"
    UNKNOWN_KIND = "unknown-kind"
    UNSAFE_KEY = "unsafe-key"
    FOREIGN_BUCKET = "foreign-bucket"
    UNREGISTERED = "unregistered"
    WRONG_TOKEN = "wrong-token"  # noqa: S105 (no secret)


UNREGISTERED_REASONS = frozenset({RefusalReason.FOREIGN_BUCKET, RefusalReason.UNREGISTERED})
"""The event is valid but concerns an unregistered table: common in a shared bucket or topic."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an event cannot be used, now or after a retry. The message never quotes the event."""

    reason: RefusalReason
    message: str


class EventRefused(Invalid):
    """A parser refuses the event. The message never quotes the event."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(reason, message)
