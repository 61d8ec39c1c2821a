"""The `icemirror` command: loads the requested command, and maps errors to exit codes."""

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
from icemirror.cli.terminal.console import config_option, print_error, print_hint, print_traceback
from icemirror.cli.terminal.interrupts import command_interrupted
from icemirror.errors import Exit, IcemirrorError, exit_code


class LazyCommand(NamedTuple):
    """The import path of a command, its line in `--help` and its section there; importing it may be slow."""

    target: str
    help: str
    section: str = "Other"


def _commands(section: str, **help_by_name: str) -> dict[str, LazyCommand]:
    """Return commands whose function and module have the command's name."""
    return {
        name.replace("_", "-"): LazyCommand(f"icemirror.cli.commands.{name}:{name}", text, section)
        for name, text in help_by_name.items()
    }


COMMANDS: Mapping[str, LazyCommand] = {
    **_commands(
        "Set up",
        config="Check the configuration; print its JSON schema.",
        demo="Run an end-to-end demo on this machine.",
    ),
    **_commands(
        "Merge",
        plan="Show what a merge would do; changes nothing.",
        merge="Merge tables up to their changelogs' heads, in this process.",
        watch="Keep all mirrors current by polling.",
        serve="Keep all mirrors current by events: Kafka, SQS, HTTP.",
        sweep="Check every changelog once, for cron.",
    ),
    **_commands(
        "Observe",
        status="Show state, lag and last run of every table.",
        verify="Compare mirror with changelog, and index with mirror.",
        explain_key="Explain the row of a key: its location, events and state.",
        inspect_index="Show the segments and sizes of a mirror's key index.",
    ),
    **_commands(
        "Control",
        pause="Stop merging tables until resumed.",
        resume="Resume tables; lifts a quarantine.",
        replay="Merge a range of a changelog again, or rebuild a mirror.",
        adopt="Make an existing Iceberg table the mirror.",
        maintain="Expire snapshots, clean orphans, compact, repair the index.",
        dead_letters="List, redrive or drop events that could not be parsed.",
    ),
}

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


class BrokenPipe(Exception):
    """A broken pipe that is not an OSError, which click would turn into a silent exit code 1."""


class LazyGroup(click.Group):
    """A group that lists its commands without importing them."""

    lazy: ClassVar[Mapping[str, LazyCommand]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the documentation."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command."""
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
        """Resolve as click does, and suggest the nearest name for an unknown one."""
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
        """Write the list of commands of `--help`, section by section."""
        widest = max(map(len, self.lazy))
        for section in dict.fromkeys(command.section for command in self.lazy.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (name.ljust(widest), command.help)
                        for name, command in self.lazy.items()
                        if command.section == section
                    ]
                )


@dataclass(slots=True)
class Shell:
    """Options given before the command's name."""

    debug: bool = False


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done, 1 unexpected error, 2 bad usage or configuration, 3 a table requires action, "
    "4 retry later, 5 a difference was found, 130 interrupted, 141 output pipe closed. "
    "`icemirror COMMAND --help` shows options and examples.",
)
@click.version_option(__version__, prog_name="icemirror", message="%(prog)s %(version)s")
@click.option(
    "--debug", is_flag=True, envvar="ICEMIRROR_DEBUG", help="Show tracebacks.  [env: ICEMIRROR_DEBUG=1]"
)
@config_option
@click.pass_obj
def cli(shell: Shell | None, config: str | None, debug: bool) -> None:
    """Keeps Iceberg mirror tables current from append-only CDC changelogs."""
    if shell is not None:
        shell.debug = debug


def conclude(error: BaseException, *, debug: bool) -> int:
    """Print what ended a command, and return the exit code."""
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
        case BrokenPipe() | BrokenPipeError() if _is_stdout_broken():
            _silence_stdout()
            return _SIGPIPE_EXIT
        case ModuleNotFoundError(name=str(name)) if (package := name.split(".")[0]) in _EXTRA_BY_PACKAGE:
            extra = _EXTRA_BY_PACKAGE[package]
            print_error(f"{package} is not installed; this command needs: pip install 'icemirror[{extra}]'")
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
    """Return click's message in the style of all others: lower case, without a full stop."""
    message = error.format_message().removesuffix(".")
    return message[:1].lower() + message[1:]


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


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; it returns an exit code, or None for 0."""
    shell = Shell()
    try:
        status = cli.main(arguments, prog_name="icemirror", standalone_mode=False, obj=shell)
        if sys.stdout is not None:  # None: closed by the parent process
            sys.stdout.flush()
    except BaseException as error:
        return int(conclude(error, debug=shell.debug))
    if status == Exit.UNEXPECTED and command_interrupted():
        status = Exit.INTERRUPTED
    return int(status) if isinstance(status, int) else int(Exit.DONE)


def _fill_closed_streams() -> None:
    """Open /dev/null for closed standard streams; the next opened file would get their number, and child output."""
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
