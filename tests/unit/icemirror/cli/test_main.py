from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from icemirror import __version__
from icemirror.cli import main
from icemirror.cli.command_list import COMMANDS, LazyCommand, LazyGroup
from icemirror.cli.main import run
from icemirror.cli.setup import configuration
from icemirror.cli.terminal import console
from icemirror.errors import CommitUnknown, Corrupt, Exit, Invalid, Transient
from icemirror.telemetry.redaction import forget_secrets

CONFIG = "iceberg: {catalog: {type: glue}}\ntables: [{changelog: raw.o, mirror: shop.o}]\n"

# What `icemirror act` does; tests replace it.
action: Callable[[], object] = lambda: None  # noqa: E731


@click.command()
@configuration.config_option
def act(config: str | None) -> object:
    if config is None:
        return action()
    click.echo(f"config={config}")
    return None


@pytest.fixture
def set_action(monkeypatch: pytest.MonkeyPatch) -> SetAction:
    """Add the command `icemirror act` and return a function that sets its action."""
    monkeypatch.setitem(sys.modules, "commands_of_this_test", sys.modules[__name__])
    monkeypatch.setattr(
        LazyGroup, "lazy", {**COMMANDS, "act": LazyCommand("commands_of_this_test:act", "Acts.")}
    )

    def replace_action(new_action: Callable[[], object]) -> None:
        monkeypatch.setattr(sys.modules[__name__], "action", new_action)

    return replace_action


SetAction = Callable[[Callable[[], object]], None]


def raising(error: BaseException) -> Callable[[], object]:
    def act() -> object:
        raise error

    return act


def test_every_command_has_a_module() -> None:
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


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"icemirror {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["-c", "X", "act"], ["act", "-c", "X"], ["act", "--config", "X"], ["-c", "Y", "act", "--config=X"]],
)
def test_config_option_is_accepted_before_and_after_the_command(
    set_action: SetAction, capsys: pytest.CaptureFixture[str], arguments: list[str]
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
def test_known_error_prints_one_line_and_sets_the_exit_code(
    set_action: SetAction, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    set_action(raising(error))
    assert run(["act"]) == code
    assert capsys.readouterr() == ("", "error: the catalog is unreachable\n")


def test_messages_are_not_interpreted_as_markup(
    set_action: SetAction, capsys: pytest.CaptureFixture[str]
) -> None:
    set_action(raising(Invalid(f"c.yaml:3: tables[0].x[red]: {'long ' * 60}end")))
    run(["act"])
    assert capsys.readouterr().err == f"error: c.yaml:3: tables[0].x[red]: {'long ' * 60}end\n"


def test_unexpected_error_explains_how_to_get_a_traceback(
    set_action: SetAction, capsys: pytest.CaptureFixture[str]
) -> None:
    set_action(raising(KeyError("boom")))
    assert run(["act"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("error: KeyError: 'boom'\n")
    assert "ICEMIRROR_DEBUG=1" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("setting", ["option", "environment"])
def test_tracebacks_are_shown_on_request(
    set_action: SetAction, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    set_action(raising(ValueError("boom")))
    if setting == "environment":
        monkeypatch.setenv("ICEMIRROR_DEBUG", "1")
    assert run(["--debug", "act"] if setting == "option" else ["act"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert shown.endswith("error: ValueError: boom\n")


def test_secrets_are_hidden_in_unexpected_errors(
    set_action: SetAction, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG.replace("type: glue", "type: glue, s3.secret-access-key: hunter2-secret"))

    def act() -> object:
        configuration.load_configuration(str(path))
        raise ConnectionError("cannot connect with hunter2-secret")

    set_action(act)
    try:
        assert run(["--debug", "act"]) == 1
    finally:
        forget_secrets()
    shown = capsys.readouterr().err
    assert "hunter2" not in shown
    assert "cannot connect with ***" in shown


def test_interruption_exits_with_130(set_action: SetAction, capsys: pytest.CaptureFixture[str]) -> None:
    set_action(raising(KeyboardInterrupt()))
    assert run(["act"]) == Exit.INTERRUPTED
    assert capsys.readouterr().err.strip() == "interrupted"


def test_command_returns_its_exit_code_or_exits(set_action: SetAction) -> None:
    set_action(lambda: Exit.DIFFERENCE)
    assert run(["act"]) == 5
    set_action(lambda: None)
    assert run(["act"]) == 0
    set_action(lambda: click.get_current_context().exit(3))
    assert run(["act"]) == 3
    set_action(raising(SystemExit(4)))
    assert run(["act"]) == 4
    set_action(raising(SystemExit()))
    assert run(["act"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mrege"], "no such command 'mrege'; did you mean merge?"),
        (["nonsense"], "no such command 'nonsense'"),
        (["--nonsense"], "no such option"),
        (["config", "check", "--nonsense"], "no such option"),
        (["config", "nonsense"], "no such command 'nonsense'"),
        (["config", "chek"], "no such command 'chek'; did you mean check?\n"),
        (["plan", "--tabel", "x"], "no such option '--tabel'; did you mean --table?\n"),
        (["plan", "--since", "2h"], "no such option '--since'\n"),
        (["verify", "-t", "x", "--sample", "y"], "invalid value for '--sample': 'y' is not a whole number\n"),
        (["demo", "--seconds", "y"], "invalid value for '--seconds': 'y' is not a number\n"),
        (["maintain", "vacuum"], "unknown action 'vacuum': choose expire, clean-orphans, compact or index\n"),
        (["merge", "shop.orders"], "unexpected argument 'shop.orders'; did you mean -t shop.orders?\n"),
        (["watch", "shop.orders"], "unexpected argument 'shop.orders'\n"),
        ([], "Usage: icemirror"),
    ],
)
def test_usage_error_exits_with_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err


def test_missing_extra_prints_the_install_command(
    set_action: SetAction, capsys: pytest.CaptureFixture[str]
) -> None:
    set_action(raising(ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql")))
    assert run(["act"]) == 2
    assert capsys.readouterr().err == (
        "error: pyspark is not installed; this command needs the extra job: in your clone of icemirror, run "
        "pip install '.[job]'\n"
    )


def test_other_missing_module_is_an_unexpected_error(
    set_action: SetAction, capsys: pytest.CaptureFixture[str]
) -> None:
    set_action(raising(ModuleNotFoundError("No module named 'icemirror.nothing'", name="icemirror.nothing")))
    assert run(["act"]) == 1
    assert "ModuleNotFoundError: No module named 'icemirror.nothing'" in capsys.readouterr().err


def test_broken_connection_is_not_a_closed_pipe(
    set_action: SetAction, capsys: pytest.CaptureFixture[str]
) -> None:
    set_action(raising(BrokenPipeError(32, "Broken pipe")))
    assert run(["act"]) == 1
    assert capsys.readouterr().err.startswith("error: BrokenPipeError: [Errno 32] Broken pipe\n")


def test_json_is_one_line_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_json({"table": "shop.bücher", "rows": [1, None]})
    assert capsys.readouterr() == ('{"table":"shop.bücher","rows":[1,null]}\n', "")


def test_entry_point_exits_with_the_code_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "run", lambda: 3)
    with pytest.raises(SystemExit) as exit_:
        main.main()
    assert exit_.value.code == 3


@pytest.mark.parametrize(
    ("environ", "width"),
    [({}, 160), ({"COLUMNS": "50"}, 50), ({"COLUMNS": "x"}, 160), ({"COLUMNS": "0"}, 160)],
)
def test_width_of_a_pipe_is_set_by_columns(environ: dict[str, str], width: int) -> None:
    assert console.open_console(stderr=False, environ=environ).width == width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("environ", "codes"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_disables_escape_codes(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], codes: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    console.open_console(stderr=False, environ=environ).print("[bold red]word")
    assert ("\x1b" in terminal.getvalue()) is codes
