"""Why an event is not used."""

from __future__ import annotations

from enum import StrEnum

from icemirror.errors import Invalid


class Reason(StrEnum):
    """The label `reason` of the metric of refused events."""

    TOO_LARGE = "too-large"
    TOO_DEEP = "too-deep"
    MALFORMED = "malformed"
    UNKNOWN_KIND = "unknown-kind"
    UNSAFE_KEY = "unsafe-key"
    FOREIGN_BUCKET = "foreign-bucket"
    UNREGISTERED = "unregistered"
    WRONG_TOKEN = "wrong-token"  # noqa: S105 (no secret)


NOT_OURS = frozenset({Reason.FOREIGN_BUCKET, Reason.UNREGISTERED})
"""The event was understood, and is about somebody else's table: usual in a bucket or topic that others share."""


class Refused(Invalid):
    """The event is not used, and will not be however often it comes. The message holds nothing of its text."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
