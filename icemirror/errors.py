"""The errors of icemirror, classified by what the caller does next, and their exit codes."""

from __future__ import annotations

import shlex
from enum import IntEnum, StrEnum


class Kind(StrEnum):
    """`error.kind` in JSON results."""

    TRANSIENT = "transient"
    CONFLICT = "conflict"
    COMMIT_UNKNOWN = "commit-unknown"
    INVALID = "invalid"
    CORRUPT = "corrupt"
    UNEXPECTED = "unexpected"


class Exit(IntEnum):
    """Exit codes of the commands."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    BLOCKED = 3
    RETRY_LATER = 4
    DIFFERENCE = 5
    INTERRUPTED = 130


BLOCKING_KINDS = frozenset({Kind.INVALID, Kind.CORRUPT})
"""Errors that a retry cannot solve: the table is blocked until the user acts."""


_TABLE_PLACEHOLDER = "--table …"

REBUILD_ADVICE = (
    "rebuild the mirror from the changelog, without interrupting readers: "
    f"`icemirror replay --full {_TABLE_PLACEHOLDER}`"
)
"""Advice for an error message if merging cannot continue from the mirror; `insert_table_name` completes it."""

RECREATE_ADVICE = (
    "drop the mirror, then run `icemirror resume`: the next merge recreates it from the changelog"
)
"""Advice for an error message if the mirror table itself cannot be used."""


NO_MIRROR_YET = "there is no mirror yet; the first merge that finds events in the changelog creates it"
"""Not an error: the changelog is still empty."""


class IcemirrorError(Exception):
    """Root of all errors of icemirror. The message states what is wrong, what to do, and where."""

    kind: Kind = Kind.TRANSIENT


def insert_table_name(error: IcemirrorError, table: str) -> None:
    """Put the table's name into the commands in the error's message, so that they can be copied."""
    error.args = tuple(
        with_table_name(argument, table) if isinstance(argument, str) else argument for argument in error.args
    )


def with_table_name(message: str, table: str) -> str:
    """Return the message with the table's name in its commands."""
    return message.replace(_TABLE_PLACEHOLDER, f"--table {shlex.quote(table)}")


class Transient(IcemirrorError):
    """Retry later: the catalog or storage did not respond, or the disk is full."""

    kind = Kind.TRANSIENT


class Conflict(IcemirrorError):
    """Plan again from fresh state: the mirror has a new head."""

    kind = Kind.CONFLICT


class UnverifiedConflict(Conflict):
    """Plan again, and delete nothing: the commit was refused, but no other commit is visible. It may have succeeded."""


class CommitUnknown(IcemirrorError):
    """Check the mirror before a retry, and delete nothing: the commit may have succeeded."""

    kind = Kind.COMMIT_UNKNOWN


class Invalid(IcemirrorError):
    """The table is blocked. The message states the required action."""

    kind = Kind.INVALID


class Corrupt(IcemirrorError):
    """Stop and repair: a file does not match its checksum or its table's metadata."""

    kind = Kind.CORRUPT


class BadConfig(Invalid):
    """The configuration is invalid."""


def exit_for_kind(kind: Kind) -> Exit:
    """Return the exit code of a table that failed with this kind of error."""
    if kind is Kind.UNEXPECTED:
        return Exit.UNEXPECTED
    return Exit.BLOCKED if kind in BLOCKING_KINDS else Exit.RETRY_LATER


def exit_code(error: BaseException) -> Exit:
    """Return the exit code of a command that ended with this error."""
    match error:
        case BadConfig():
            return Exit.USAGE
        case IcemirrorError():
            return exit_for_kind(error.kind)
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case _:
            return Exit.UNEXPECTED


def worst_exit(codes: list[Exit]) -> Exit:
    """Return the exit code of a command over several tables: the most severe one."""
    most_severe_first = (Exit.UNEXPECTED, Exit.USAGE, Exit.BLOCKED, Exit.RETRY_LATER, Exit.DONE)
    return next((code for code in most_severe_first if code in codes), Exit.DONE)


def describe_unexpected(error: BaseException) -> str:
    """Return type and location of an unexpected error, without its text: a library may quote row values in it."""
    trace, location = error.__traceback__, ""
    while trace is not None:
        location = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"unexpected {type(error).__name__} at {location}"
