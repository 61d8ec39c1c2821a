"""Every failure the product names, classed by what happens next, and the exit code each one leads to."""

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
    NEEDS_PERSON = 3
    RETRY_LATER = 4
    DIFFERENCE = 5
    INTERRUPTED = 130


NEEDS_PERSON = frozenset({Kind.INVALID, Kind.CORRUPT})
"""Trying again does not help until somebody has mended something."""


_SOME_TABLE = "--table …"

REBUILD = f"rebuild the mirror from the changelog, which readers do not notice: `icemirror replay --full {_SOME_TABLE}`"
"""What to do where a mirror cannot go on from what it has; `fill_in` says which."""

MAKE_ANEW = "drop the mirror, then `icemirror resume`: the next merge makes it anew from the changelog"
"""What to do where the table itself is not what it has to be."""


NO_MIRROR_YET = "there is no mirror yet; the first merge that finds events in the changelog makes it"
"""Nothing is wrong where the changelog is empty still."""


class IcemirrorError(Exception):
    """Root of all named errors. The message says what was expected, what was found and what to do."""

    kind: Kind = Kind.TRANSIENT


def fill_in(error: IcemirrorError, table: str) -> None:
    """Names the table in the commands that the message tells, so that they can be copied."""
    error.args = tuple(filled(one, table) if isinstance(one, str) else one for one in error.args)


def filled(message: str, table: str) -> str:
    """The same for a message that is no error's."""
    return message.replace(_SOME_TABLE, f"--table {shlex.quote(table)}")


class Transient(IcemirrorError):
    """Retry later: the catalog or storage did not answer, the disk is full."""

    kind = Kind.TRANSIENT


class Conflict(IcemirrorError):
    """Plan again from fresh state: the mirror's head moved."""

    kind = Kind.CONFLICT


class Contested(Conflict):
    """The same, and delete nothing: the commit was refused, but nobody is seen who was quicker. It may have landed."""


class CommitUnknown(IcemirrorError):
    """Look before retrying and delete nothing: the commit may have landed."""

    kind = Kind.COMMIT_UNKNOWN


class Invalid(IcemirrorError):
    """Needs a person; the message says what to do."""

    kind = Kind.INVALID


class Corrupt(IcemirrorError):
    """A file is not what its checksum or its table says."""

    kind = Kind.CORRUPT


class BadConfig(Invalid):
    """The configuration file cannot be used."""


def exit_of(kind: Kind) -> Exit:
    """The exit code of a table that failed in this way."""
    if kind is Kind.UNEXPECTED:
        return Exit.UNEXPECTED
    return Exit.NEEDS_PERSON if kind in NEEDS_PERSON else Exit.RETRY_LATER


def exit_code(error: BaseException) -> Exit:
    """The exit code of a command that ended with this error."""
    match error:
        case BadConfig():
            return Exit.USAGE
        case IcemirrorError():
            return exit_of(error.kind)
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case _:
            return Exit.UNEXPECTED


def worst(codes: list[Exit]) -> Exit:
    """The exit code of a command over several tables: the first of 1, 2, 3, 4, 0 that occurs."""
    order = (Exit.UNEXPECTED, Exit.USAGE, Exit.NEEDS_PERSON, Exit.RETRY_LATER, Exit.DONE)
    return next((code for code in order if code in codes), Exit.DONE)


def unexpected_text(error: BaseException) -> str:
    """Type and place of an error that has no name of ours. Not its text: a library may put values of rows into it."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        where = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"unexpected {type(error).__name__} at {where}"
