"""An exception as an `ErrorResult`: secrets masked, and short enough to store."""

from __future__ import annotations

from icemirror.errors import IcemirrorError, Kind, describe_unexpected
from icemirror.result import ErrorResult
from icemirror.telemetry.redaction import redact

MAX_MESSAGE_CHARACTERS = 4_000
DEBUG_HINT = "ICEMIRROR_DEBUG=1 shows details"
"""Where to find details of an error in a command."""
LOG_HINT = "see the job's log"
"""Where to find details of an error in a worker."""


def to_error_result(error: Exception, details_hint: str = "") -> ErrorResult:
    """Return kind and message; `details_hint`: where to find details of an unexpected error.

    An unexpected error is a defect of icemirror or a library. A worker retries it like a transient one: only errors of
    `BLOCKING_KINDS` quarantine a table at once.
    """
    if isinstance(error, IcemirrorError):
        return ErrorResult(kind=error.kind, message=shorten(redact(str(error))))
    return ErrorResult(kind=Kind.UNEXPECTED, message=shorten(f"{describe_unexpected(error)}; {details_hint}"))


def shorten(message: str) -> str:
    """Return the message, shortened to fit into a state row."""
    return message if len(message) <= MAX_MESSAGE_CHARACTERS else f"{message[: MAX_MESSAGE_CHARACTERS - 1]}…"
