"""Output of all commands: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping

import click
from rich.console import Console, Group, RenderableType
from rich.text import Text

from icemirror.errors import Exit, IcemirrorError, exit_code
from icemirror.telemetry.redaction import redact

_PIPE_WIDTH = 160


def open_console(*, stderr: bool, environ: Mapping[str, str]) -> Console:
    """Return a console on stdout or stderr; output to a closed stream is discarded.

    In a pipe, lines of tables are not cut unless `COLUMNS` states a width. With `NO_COLOR` there are no escape codes at
    all; rich alone would keep bold and dim.
    """
    stream = sys.stderr if stderr else sys.stdout
    is_terminal = stream is not None and stream.isatty()
    columns = environ.get("COLUMNS", "")
    pipe_width = int(columns) if columns.isdecimal() and int(columns) else _PIPE_WIDTH
    return Console(
        stderr=stderr,
        highlight=False,
        width=None if is_terminal else pipe_width,
        color_system=None if environ.get("NO_COLOR") else "auto",
    )


out = open_console(stderr=False, environ=os.environ)
"""Results."""

err = open_console(stderr=True, environ=os.environ)
"""Logs, progress, errors."""


def print_result(result: RenderableType) -> None:
    """Print a table or text on stdout. In a pipe, text is not wrapped, and lines have no blanks at their end."""
    if out.is_terminal:
        out.print(result)
        return
    with out.capture() as capture:
        for part in _flatten(result):
            out.print(part, soft_wrap=isinstance(part, Text))
    click.echo("\n".join(line.rstrip(" ") for line in capture.get().split("\n")), nl=False)


def _flatten(result: RenderableType) -> Iterator[RenderableType]:
    if isinstance(result, Group):
        for part in result.renderables:
            yield from _flatten(part)
    else:
        yield result


def print_json(value: object) -> None:
    """Print one JSON value on one line of stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def print_json_error(table: str, error: Exception) -> None:
    """Print a table's error as one line of JSON, without secrets."""
    from icemirror.telemetry.error_results import DEBUG_HINT, to_error_result

    failure = to_error_result(error, DEBUG_HINT)
    print_json({"table": table, "error": {"kind": failure.kind, "message": failure.message}})


def printable(text: str) -> str:
    """Escape control characters, which a terminal would execute: the text may come from outside. Keeps line breaks."""
    text = text.replace("\t", " ")
    return "".join(
        character if character.isprintable() or character == "\n" else f"\\u{ord(character):04x}"
        for character in text
    )


def print_error(message: str) -> None:
    """Print `error: …` on stderr, without secrets."""
    text = printable(redact(message))
    err.print(Text("error: ", style="bold red").append(text, style="not bold default"), soft_wrap=True)


def print_traceback(error: BaseException) -> None:
    """Print the traceback on stderr, without secrets."""
    click.echo(redact("".join(traceback.format_exception(error))), err=True)


def print_hint(message: str) -> None:
    """Print a note or the next step on stderr."""
    err.print(Text(printable(message), style="dim"), soft_wrap=True)


def report_error(table: str, error: IcemirrorError, *, as_json: bool) -> Exit:
    """Print a table's error, and as JSON with `as_json`; return its exit code."""
    if as_json:
        print_json_error(table, error)
    print_error(str(error))
    return exit_code(error)
