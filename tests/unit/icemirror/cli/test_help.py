"""The help of every command: complete, within 80 columns, with examples that run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from icemirror.cli.command_list import COMMANDS
from icemirror.cli.main import cli, run

WITHOUT_CONFIGURATION = {"demo", "schema", "from-terraform"}


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli, info_name="icemirror")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", subcommand) for inner, subcommand in command.commands.items())


def examples(command: click.Command) -> list[list[str]]:
    """Return the arguments of `icemirror` in each example."""
    lines = re.findall(r"(?<!\S)icemirror (.*)", command.epilog or "")
    return [shlex.split(line.split(" > ")[0]) for line in lines]


CASES = [(name, arguments) for name, command in commands() for arguments in examples(command)]


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_command_has_examples(name: str) -> None:
    shown = examples(dict(commands())[name])
    assert shown
    for arguments in shown:
        assert arguments[: len(name.split())] == name.split()


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=[shlex.join(arguments) for _, arguments in CASES])
def test_examples_have_known_and_consistent_options(
    name: str,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    context = cli.make_context("icemirror", list(arguments))
    command: click.Command = cli
    rest = list(arguments)
    while isinstance(command, click.Group):
        inner = command.get_command(context, rest[0])
        assert inner is not None
        context = inner.make_context(rest[0], rest[1:], parent=context)
        command, rest = inner, rest[1:]
    if command.name in WITHOUT_CONFIGURATION:
        return
    # The command itself refuses options that exclude each other, before it loads the configuration.
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(tmp_path / "missing.yaml"))
    assert run(arguments) == 2
    assert "configuration file not found" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", *(name for name, _ in commands())])
def test_help_fits_80_columns_and_cuts_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "..." not in shown.replace("[ARGS]...", "")
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_commands_are_grouped(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    sections = re.findall(r"^([A-Z][\w ]+):$", capsys.readouterr().out, re.MULTILINE)
    assert sections == ["Options", "Set up", "Merge", "Observe", "Control"]


def test_usage_error_has_the_form_of_other_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "-t", "shop.orders", "--full", "--cancel"]) == 2
    assert capsys.readouterr() == (
        "",
        "error: give one of --from-snapshot, --since, --full and --cancel\nusage: icemirror replay --help\n",
    )
    assert run(["merge", "--nonsense"]) == 2
    assert capsys.readouterr().err == "error: no such option '--nonsense'\nusage: icemirror merge --help\n"
