"""The `icemirror` command: runs the requested command and returns its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import click

from icemirror import __version__
from icemirror.cli.command_end import report_command_end
from icemirror.cli.command_list import LazyGroup
from icemirror.cli.setup.configuration import config_option
from icemirror.cli.terminal.interrupts import command_interrupted
from icemirror.errors import Exit

_EPILOG = """\
New here: `icemirror demo`, then docs/tutorials/first-changelog.md. All documentation: docs/index.md.
`icemirror COMMAND --help` shows options and examples.

\b
Exit codes:
  0    done
  1    unexpected error
  2    bad usage or configuration
  3    a table requires action
  4    retry later
  5    a difference was found
  130  interrupted
  141  output pipe closed
"""


@dataclass(slots=True)
class GlobalOptions:
    """Options before the command's name."""

    debug: bool = False


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=_EPILOG,
)
@click.version_option(__version__, prog_name="icemirror", message="%(prog)s %(version)s")
@click.option(
    "--debug", is_flag=True, envvar="ICEMIRROR_DEBUG", help="Show tracebacks.  [env: ICEMIRROR_DEBUG=1]"
)
@config_option
@click.pass_obj
def cli(options: GlobalOptions | None, config: str | None, debug: bool) -> None:
    """Keep Iceberg mirror tables (one current row per key) in sync with append-only CDC changelogs."""
    if options is not None:
        options.debug = debug


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; a command that returns None ends with 0."""
    options = GlobalOptions()
    try:
        status = cli.main(arguments, prog_name="icemirror", standalone_mode=False, obj=options)
        if sys.stdout is not None:  # None: closed by the parent process
            sys.stdout.flush()
    except BaseException as error:
        return int(report_command_end(error, debug=options.debug))
    if status == Exit.UNEXPECTED and command_interrupted():
        status = Exit.INTERRUPTED
    return int(status) if isinstance(status, int) else int(Exit.DONE)


def _fill_closed_streams() -> None:
    """Open /dev/null for closed standard streams; the next opened file would get their number, and child output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)


def main() -> NoReturn:
    """Run the command line and exit."""
    _fill_closed_streams()
    sys.exit(run())
