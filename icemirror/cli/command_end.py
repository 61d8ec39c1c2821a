"""The end of a command: prints its error and returns its exit code."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
from pathlib import Path

import click

from icemirror.cli.terminal.console import print_error, print_hint, print_traceback
from icemirror.cli.terminal.interrupts import command_interrupted
from icemirror.errors import Exit, IcemirrorError, exit_code
from icemirror.similar_names import suggest

# Packages of the extras, for the message about a missing one.
_EXTRA_BY_PACKAGE = {
    "aiokafka": "kafka",
    "boto3": "aws",
    "botocore": "aws",
    "duckdb": "demo",
    "httpx2": "kubernetes",
    "lightkube": "kubernetes",
    "numpy": "job",
    "opentelemetry": "telemetry",
    "pyarrow": "job",
    "pyiceberg": "job",
    "pyspark": "job",
    "sentry_sdk": "telemetry",
}
_SIGPIPE_EXIT = 141
_MIN_OPTION_SIMILARITY = 0.7
_EXTRA_ARGUMENT = re.compile(r"Got unexpected extra argument \((\S+)\)")
# Words of click that only programmers use.
_PLAIN_WORDS = (
    (re.compile(r"is not a valid integer( range)?\b"), "is not a whole number"),
    (re.compile(r"is not a valid float( range)?\b"), "is not a number"),
)


class WrappedBrokenPipe(Exception):
    """Wraps a BrokenPipeError, because click would turn that into a silent exit code 1."""


def report_command_end(error: BaseException, *, debug: bool) -> int:
    """Print what ended a command, and return the exit code."""
    if isinstance(error, WrappedBrokenPipe) and error.__cause__ is not None:
        error = error.__cause__
    if debug and not isinstance(error, SystemExit | click.ClickException | click.Abort):
        print_traceback(error)
    match error:
        case SystemExit():
            return _exit_status(error)
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return Exit.USAGE
        case click.ClickException():
            print_error(_usage_message(error))
            if isinstance(error, click.UsageError) and error.ctx is not None:
                print_hint(f"usage: {error.ctx.command_path} --help")
            return Exit.USAGE
        case click.Abort() | KeyboardInterrupt():
            print_hint("interrupted")
            return Exit.INTERRUPTED
        case BrokenPipeError() if _is_stdout_broken():
            _silence_stdout()
            return _SIGPIPE_EXIT
        case ModuleNotFoundError(name=str(name)) if (package := name.split(".")[0]) in _EXTRA_BY_PACKAGE:
            extra = _EXTRA_BY_PACKAGE[package]
            print_error(
                f"{package} is not installed; this command needs the extra {extra}: in your clone of icemirror, "
                f"run pip install '.[{extra}]'"
            )
            return Exit.USAGE
        case IcemirrorError():
            print_error(str(error))
        case _ if command_interrupted():  # the error is a consequence of it
            print_hint("interrupted")
            return Exit.INTERRUPTED
        case _:
            print_error(f"{type(error).__name__}: {error}")
            if not debug:
                print_hint("This error is unexpected. Set ICEMIRROR_DEBUG=1 to see the traceback.")
    return exit_code(error)


def _usage_message(error: click.ClickException) -> str:
    """Return the message of a usage error in the style of all others: lower case, without a full stop."""
    match error:
        case click.NoSuchOption():
            hint = suggest(error.option_name, error.possibilities or (), _MIN_OPTION_SIMILARITY)
            return f"no such option {error.option_name!r}{hint}"
        case click.NoSuchCommand():
            return f"no such command {error.command_name!r}{suggest(error.command_name, error.possibilities or ())}"
        case click.BadParameter(param=click.Argument(type=click.Choice() as choice, name=str(name))):
            unknown, *_ = error.message.partition(" is not one of ")
            *first_choices, last = choice.choices
            return f"unknown {name} {unknown}: choose {', '.join(first_choices)} or {last}"
    message = error.format_message().removesuffix(".")
    if extra_argument := _EXTRA_ARGUMENT.fullmatch(message):
        return f"unexpected argument {extra_argument[1]!r}{_suggest_table_option(error, extra_argument[1])}"
    for pattern, replacement in _PLAIN_WORDS:
        message = pattern.sub(replacement, message)
    return message[:1].lower() + message[1:]


def _suggest_table_option(error: click.ClickException, argument: str) -> str:
    """Return `; did you mean -t shop.orders?` if the command has this option and the argument is a dotted name."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    options = [option for parameter in context.command.params for option in parameter.opts] if context else []
    return f"; did you mean -t {argument}?" if "--table" in options and "." in argument else ""


def _exit_status(error: SystemExit) -> int:
    """Return the interpreter's exit status, except that rich exits with 1 when the pipe is closed."""
    if isinstance(error.__context__, BrokenPipeError):
        _silence_stdout()
        return _SIGPIPE_EXIT
    match error.code:
        case None:
            return Exit.DONE
        case int():
            return error.code
        case _:
            print_error(str(error.code))
            return Exit.UNEXPECTED


def _is_stdout_broken() -> bool:
    """Return whether stdout's pipe broke, and not a connection to a catalog or to storage."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)  # a closed pipe is always reported
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # AttributeError: stdout is closed
        return False


def _silence_stdout() -> None:
    """Discard buffered output, which would raise at exit because the pipe is closed."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
