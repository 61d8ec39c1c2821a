"""The `icemirror` command: loads the command asked for, and turns what it raises into an exit code."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import select
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, NoReturn

import click

from icemirror import __version__
from icemirror.cli.console import config_option, print_error, print_hint, print_traceback
from icemirror.cli.interrupted import was_interrupted
from icemirror.errors import Exit, IcemirrorError, exit_code


class LazyCommand(NamedTuple):
    """Where a command is, and what `--help` says of it; importing it may be slow."""

    target: str
    help: str


COMMANDS: Mapping[str, LazyCommand] = {
    "demo": LazyCommand(
        "icemirror.cli.demo.demo:demo", "See it work: changelogs, live changes, mirrors, proof."
    ),
    "merge": LazyCommand(
        "icemirror.cli.merge:merge", "Merge tables up to their changelogs' heads, here and now."
    ),
    "plan": LazyCommand("icemirror.cli.plan:plan", "Show what a merge would do; changes nothing."),
    "watch": LazyCommand("icemirror.cli.watch:watch", "Keep all mirrors current: look, coalesce, launch."),
    "serve": LazyCommand(
        "icemirror.cli.serve:serve", "Keep all mirrors current by events: Kafka, SQS, HTTP."
    ),
    "sweep": LazyCommand("icemirror.cli.sweep:sweep", "Look at every changelog once, for cron."),
    "status": LazyCommand("icemirror.cli.status:status", "State, lag and last run of every table."),
    "pause": LazyCommand("icemirror.cli.pause:pause", "Take no more work for tables, until resumed."),
    "replay": LazyCommand(
        "icemirror.cli.replay:replay", "Merge a part of a changelog once more, or rebuild a mirror."
    ),
    "resume": LazyCommand("icemirror.cli.resume:resume", "Take work for tables again; lifts a quarantine."),
    "dead-letters": LazyCommand(
        "icemirror.cli.dead_letters:dead_letters", "Events that could not be used: see, redrive or drop them."
    ),
    "maintain": LazyCommand(
        "icemirror.cli.maintain:maintain", "Expire snapshots; remove files that nothing names."
    ),
    "verify": LazyCommand("icemirror.cli.verify:verify", "Mirror against changelog, index against mirror."),
    "explain-key": LazyCommand(
        "icemirror.cli.explain_key:explain_key", "Why the row of a key is as it is, or is not there."
    ),
    "adopt": LazyCommand("icemirror.cli.adopt:adopt", "Make an existing Iceberg table the mirror."),
    "inspect-index": LazyCommand(
        "icemirror.cli.inspect_index:inspect_index", "What a mirror's key index is made of."
    ),
    "config": LazyCommand("icemirror.cli.config:config", "Check the configuration; print its JSON schema."),
}

# Packages that are not there without an extra, so that a bare installation says what to install.
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


class BrokenPipe(Exception):
    """A broken pipe that is not an OSError: those click would turn into a silent exit code 1 by itself."""


class LazyGroup(click.Group):
    """A group that knows its commands' names and help without importing them."""

    lazy: ClassVar[Mapping[str, LazyCommand]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which people need them."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported."""
        if cmd_name not in self.lazy:
            return None
        module, attribute = self.lazy[cmd_name].target.split(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{attribute} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest name for one that does not exist."""
        name = args[0]
        if name not in self.lazy and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, self.lazy, n=1)
            ctx.fail(f"No such command {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise BrokenPipe(str(error)) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands for `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in self.lazy.items()])


@dataclass(slots=True)
class Shell:
    """What the options before the command's name say about the whole run."""

    debug: bool = False


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done, 2 bad usage or configuration, 3 a table needs a person, 4 retry later, "
    "5 a difference was found, 1 unexpected, 130 interrupted, 141 nobody reads the output any more.",
)
@click.version_option(__version__, prog_name="icemirror", message="%(prog)s %(version)s")
@click.option(
    "--debug", is_flag=True, envvar="ICEMIRROR_DEBUG", help="Show tracebacks.  [env: ICEMIRROR_DEBUG=1]"
)
@config_option
@click.pass_obj
def cli(shell: Shell | None, config: str | None, debug: bool) -> None:
    """Keeps clean Iceberg mirror tables current from append-only changelog tables, hands-off."""
    if shell is not None:
        shell.debug = debug


def conclude(error: BaseException, *, debug: bool) -> int:
    """The policy for everything that ends a command: say what happened, and give the exit code."""
    if debug and not isinstance(error, SystemExit | click.ClickException | click.Abort):
        print_traceback(error)
    match error:
        case SystemExit():
            return _exit_status(error)
        case click.ClickException():
            error.show()
            return Exit.USAGE
        case click.Abort() | KeyboardInterrupt():
            print_hint("interrupted")
            return Exit.INTERRUPTED
        case BrokenPipe() | BrokenPipeError() if _nobody_reads_stdout():
            _silence_stdout()
            return _SIGPIPE_EXIT
        case ModuleNotFoundError(name=str(name)) if (package := name.split(".")[0]) in _EXTRA_BY_PACKAGE:
            extra = _EXTRA_BY_PACKAGE[package]
            print_error(f"{package} is not installed; this command needs: pip install 'icemirror[{extra}]'")
            return Exit.USAGE
        case IcemirrorError():
            print_error(str(error))
        case _ if was_interrupted():  # that is what it came of
            print_hint("interrupted")
            return Exit.INTERRUPTED
        case _:
            print_error(f"{type(error).__name__}: {error}")
            if not debug:
                print_hint("This was not expected. ICEMIRROR_DEBUG=1 shows where it happened.")
    return exit_code(error)


def _exit_status(error: SystemExit) -> int:
    """What the interpreter would make of it; but rich answers a closed pipe with exit 1."""
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


def _nobody_reads_stdout() -> bool:
    """It was stdout's pipe that broke, and not a connection to a catalog or to storage."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)  # (a closed pipe is reported unasked)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # (no attribute: stdout is closed)
        return False


def _silence_stdout() -> None:
    """Nobody reads stdout any more, so what is still buffered goes nowhere instead of raising at exit."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a command returns an exit code, or None for 0."""
    shell = Shell()
    try:
        status = cli.main(arguments, prog_name="icemirror", standalone_mode=False, obj=shell)
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.flush()
    except BaseException as error:
        return int(conclude(error, debug=shell.debug))
    if status == Exit.UNEXPECTED and was_interrupted():
        status = Exit.INTERRUPTED
    return int(status) if isinstance(status, int) else int(Exit.DONE)


def _fill_closed_streams() -> None:
    """The next file that is opened would get the number of a closed stream, and what children print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)


def main() -> NoReturn:
    """The entry point of the console script."""
    _fill_closed_streams()
    sys.exit(run())
