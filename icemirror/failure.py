"""What is told of an error that ended the work on a table."""

from __future__ import annotations

from icemirror.errors import IcemirrorError, Kind, unexpected_text
from icemirror.result import ErrorResult
from icemirror.telemetry.redaction import redact

MOST_CHARACTERS = 4_000
MORE = "ICEMIRROR_DEBUG=1 shows more"
"""Where to learn more of what ended a command."""
MORE_IN_LOG = "the job's log says more"
"""The same of what a worker met."""


def failure_of(error: Exception, more: str = "") -> ErrorResult:
    """Kind and message; `more` says where to learn more of one that nobody expected.

    An unexpected one is a defect, of ours or of a library. A worker tries it again all the same, as often as what
    passes by itself: only what needs a person is quarantined at once.
    """
    if isinstance(error, IcemirrorError):
        return ErrorResult(kind=error.kind, message=cut(redact(str(error))))
    return ErrorResult(kind=Kind.UNEXPECTED, message=cut(f"{unexpected_text(error)}; {more}"))


def cut(message: str) -> str:
    """As much of it as a row of the state has room for: one that is too large cannot be stored at all."""
    return message if len(message) <= MOST_CHARACTERS else f"{message[: MOST_CHARACTERS - 1]}…"
