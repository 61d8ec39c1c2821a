from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from icemirror import __version__
from icemirror.cli import main
from icemirror.cli.main import COMMANDS, LazyCommand, LazyGroup, run
from icemirror.cli.terminal import console
from icemirror.errors import CommitUnknown, Corrupt, Exit, Invalid, Transient
from icemirror.telemetry.redaction import forget_secrets

CONFIG = "iceberg: {catalog: {type: glue}}\ntables: [{changelog: raw.o, mirror: shop.o}]\n"

# What a test's command does; this module replaces those of real commands.
action: Callable[[], object] = lambda: None  # noqa: E731


@click.command()
@console.config_option
def act(config: str | None) -> object:
    if config is None:
        return action()
    click.echo(f"config={config}")
    return None


@pytest.fixture
def doing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Makes `icemirror act` a command that does what the test says."""
    monkeypatch.setitem(sys.modules, "commands_of_this_test", sys.modules[__name__])
    monkeypatch.setattr(
        LazyGroup, "lazy", {**COMMANDS, "act": LazyCommand("commands_of_this_test:act", "Acts.")}
    )

    def set_action(what: Callable[[], object]) -> None:
        monkeypatch.setattr(sys.modules[__name__], "action", what)

    return set_action


Doing = Callable[[Callable[[], object]], None]


def raising(error: BaseException) -> Callable[[], object]:
    def act() -> object:
        raise error

    return act


def test_every_command_names_its_module() -> None:
    assert list(COMMANDS) == [
        "config",
        "demo",
        "plan",
        "merge",
        "watch",
        "serve",
        "sweep",
        "status",
        "verify",
        "explain-key",
        "inspect-index",
        "pause",
        "resume",
        "replay",
        "adopt",
        "maintain",
        "dead-letters",
    ]
    for command in COMMANDS.values():
        module, attribute = command.target.split(":")
        assert module.startswith("icemirror.cli.")
        assert attribute == module.rsplit(".", 1)[1]


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"icemirror {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["-c", "X", "act"], ["act", "-c", "X"], ["act", "--config", "X"], ["-c", "Y", "act", "--config=X"]],
)
def test_the_configuration_may_be_named_before_or_after_the_command(
    doing: Doing, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(arguments) == 0
    assert capsys.readouterr().out == "config=X\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Transient("the catalog is unreachable"), 4),
        (CommitUnknown("the catalog is unreachable"), 4),
        (Invalid("the catalog is unreachable"), 3),
        (Corrupt("the catalog is unreachable"), 3),
    ],
)
def test_a_named_error_is_one_line_on_stderr_and_its_exit_code(
    doing: Doing, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    doing(raising(error))
    assert run(["act"]) == code
    assert capsys.readouterr() == ("", "error: the catalog is unreachable\n")


def test_messages_are_not_taken_for_markup(doing: Doing, capsys: pytest.CaptureFixture[str]) -> None:
    doing(raising(Invalid(f"c.yaml:3: tables[0].x[red]: {'long ' * 60}end")))
    run(["act"])
    assert capsys.readouterr().err == f"error: c.yaml:3: tables[0].x[red]: {'long ' * 60}end\n"


def test_an_unexpected_error_says_how_to_learn_more(doing: Doing, capsys: pytest.CaptureFixture[str]) -> None:
    doing(raising(KeyError("boom")))
    assert run(["act"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("error: KeyError: 'boom'\n")
    assert "ICEMIRROR_DEBUG=1" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("way", ["option", "environment"])
def test_tracebacks_are_shown_on_request(
    doing: Doing, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    doing(raising(ValueError("boom")))
    if way == "environment":
        monkeypatch.setenv("ICEMIRROR_DEBUG", "1")
    assert run(["--debug", "act"] if way == "option" else ["act"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert shown.endswith("error: ValueError: boom\n")


def test_secrets_of_the_configuration_are_hidden_in_unexpected_errors_too(
    doing: Doing, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG.replace("type: glue", "type: glue, s3.secret-access-key: hunter2-secret"))

    def act() -> object:
        console.load(str(path))
        raise ConnectionError("cannot connect with hunter2-secret")

    doing(act)
    try:
        assert run(["--debug", "act"]) == 1
    finally:
        forget_secrets()
    shown = capsys.readouterr().err
    assert "hunter2" not in shown
    assert "cannot connect with ***" in shown


def test_interruption_is_130(doing: Doing, capsys: pytest.CaptureFixture[str]) -> None:
    doing(raising(KeyboardInterrupt()))
    assert run(["act"]) == Exit.INTERRUPTED
    assert capsys.readouterr().err.strip() == "interrupted"


def test_a_command_may_return_its_exit_code_or_exit(doing: Doing) -> None:
    doing(lambda: Exit.DIFFERENCE)
    assert run(["act"]) == 5
    doing(lambda: None)
    assert run(["act"]) == 0
    doing(lambda: click.get_current_context().exit(3))
    assert run(["act"]) == 3
    doing(raising(SystemExit(4)))
    assert run(["act"]) == 4
    doing(raising(SystemExit()))
    assert run(["act"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mrege"], "no such command 'mrege'. Did you mean 'merge'?"),
        (["nonsense"], "no such command 'nonsense'"),
        (["--nonsense"], "no such option"),
        (["config", "check", "--nonsense"], "no such option"),
        (["config", "nonsense"], "no such command 'nonsense'"),
        ([], "Usage: icemirror"),
    ],
)
def test_bad_usage_is_2(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err


def test_a_missing_extra_says_what_to_install(doing: Doing, capsys: pytest.CaptureFixture[str]) -> None:
    doing(raising(ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql")))
    assert run(["act"]) == 2
    assert capsys.readouterr().err == (
        "error: pyspark is not installed; this command needs: pip install 'icemirror[job]'\n"
    )


def test_any_other_missing_module_is_unexpected(doing: Doing, capsys: pytest.CaptureFixture[str]) -> None:
    doing(raising(ModuleNotFoundError("No module named 'icemirror.nothing'", name="icemirror.nothing")))
    assert run(["act"]) == 1
    assert "ModuleNotFoundError: No module named 'icemirror.nothing'" in capsys.readouterr().err


def test_a_broken_connection_is_not_taken_for_a_closed_pipe(
    doing: Doing, capsys: pytest.CaptureFixture[str]
) -> None:
    doing(raising(BrokenPipeError(32, "Broken pipe")))
    assert run(["act"]) == 1
    assert capsys.readouterr().err.startswith("error: BrokenPipe: [Errno 32] Broken pipe\n")


def test_json_is_one_line_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_json({"table": "shop.bücher", "rows": [1, None]})
    assert capsys.readouterr() == ('{"table":"shop.bücher","rows":[1,null]}\n', "")


def test_the_entry_point_exits_with_the_commands_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "run", lambda: 3)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 3


@pytest.mark.parametrize(
    ("environ", "width"),
    [({}, 160), ({"COLUMNS": "50"}, 50), ({"COLUMNS": "x"}, 160), ({"COLUMNS": "0"}, 160)],
)
def test_a_pipe_is_as_wide_as_columns_says(environ: dict[str, str], width: int) -> None:
    assert console.open_console(stderr=False, environ=environ).width == width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("environ", "codes"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_leaves_no_codes_at_all(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], codes: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    console.open_console(stderr=False, environ=environ).print("[bold red]word")
    assert ("\x1b" in terminal.getvalue()) is codes
