"""What is told of an error that ended the work on a table."""

from __future__ import annotations

from icemirror.errors import IcemirrorError, Kind, unexpected_text
from icemirror.result import ErrorResult
from icemirror.telemetry.redaction import redact


def failure_of(error: Exception, more: str = "") -> ErrorResult:
    """Kind and message; `more` says where to learn more of one that nobody expected.

    An unexpected one is a defect, of ours or of a library. A worker tries it again all the same, as often as what
    passes by itself: only what needs a person is quarantined at once.
    """
    if isinstance(error, IcemirrorError):
        return ErrorResult(kind=error.kind, message=redact(str(error)))
    return ErrorResult(kind=Kind.UNEXPECTED, message=f"{unexpected_text(error)}; {more}")
