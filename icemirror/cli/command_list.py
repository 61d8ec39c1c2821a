"""The list of commands, each imported only when it runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import click

from icemirror.cli.command_end import WrappedBrokenPipe


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
        merge="Merge all new events once, in this process.",
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
        resume="Resume paused, blocked and quarantined tables.",
        replay="Merge a range of a changelog again, or rebuild a mirror.",
        adopt="Make an existing Iceberg table the mirror.",
        maintain="Expire snapshots, clean orphans, compact, repair the index.",
        dead_letters="List, redrive or drop events that could not be parsed.",
    ),
}


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
        """Return the command as click does; raise for an unknown one before click searches the imported commands."""
        name = args[0]
        if name not in self.lazy and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.NoSuchCommand(name, possibilities=self.lazy, ctx=ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command and return its result."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise WrappedBrokenPipe from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands of `--help`, section by section."""
        name_width = max(map(len, self.lazy))
        for section in dict.fromkeys(command.section for command in self.lazy.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (name.ljust(name_width), command.help)
                        for name, command in self.lazy.items()
                        if command.section == section
                    ]
                )
