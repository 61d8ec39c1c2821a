"""What all commands share: results on stdout, everything else on stderr, and loading the configuration."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console
from rich.text import Text

from icemirror.telemetry.redaction import redact, register_secret

if TYPE_CHECKING:
    from icemirror.settings import Settings

# Any: click's decorators take functions and commands of every signature.
Command = TypeVar("Command", bound=Callable[..., Any])

_PIPE_WIDTH = 160


def open_console(*, stderr: bool, environ: Mapping[str, str]) -> Console:
    """Return a console on stdout or stderr; output to a closed stream is discarded.

    In a pipe, lines of tables are not cut unless `COLUMNS` states a width. With `NO_COLOR` there are no escape codes at
    all; rich alone would keep bold and dim.
    """
    stream = sys.stderr if stderr else sys.stdout
    is_terminal = stream is not None and stream.isatty()
    columns = environ.get("COLUMNS", "")
    wanted = int(columns) if columns.isdecimal() and int(columns) else _PIPE_WIDTH
    return Console(
        stderr=stderr,
        highlight=False,
        width=None if is_terminal else wanted,
        color_system=None if environ.get("NO_COLOR") else "auto",
    )


out = open_console(stderr=False, environ=os.environ)
"""Results."""

err = open_console(stderr=True, environ=os.environ)
"""Logs, progress, errors."""


def _inherit(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the option given here, or the one given before the command's name."""
    outer = ctx.parent
    while value is None and outer is not None:
        value = outer.params.get("config")
        outer = outer.parent
    return value


def config_option(command: Command) -> Command:
    """Add `-c/--config FILE`, passed as `config`, which `load` accepts."""
    return click.option(
        "-c",
        "--config",
        metavar="FILE",
        callback=_inherit,
        help="Configuration file.  [default: $ICEMIRROR_CONFIG, $CONFIG_FILE, then ./icemirror.yaml]",
    )(command)


def load(config: str | None) -> Settings:
    """Load the settings, and register their secrets for redaction."""
    from icemirror.config_file.find import find_config
    from icemirror.config_file.load import load_settings

    settings = load_settings(find_config(config, os.environ), os.environ)
    for secret in settings.secret_values():
        register_secret(secret)
    return settings


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
