"""The command line as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from icemirror import __version__
from icemirror.cli.command_list import COMMANDS

HEAVY = ("pyspark", "pyarrow", "pyiceberg", "pandas", "numpy", "duckdb")


CONFIG = "iceberg: {catalog: {type: glue}}\ntables: [{changelog: raw.o, mirror: shop.o}]\n"


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_lists_every_command_without_importing_it() -> None:
    completed = python(
        "import sys\nfrom icemirror.cli.main import run\nstatus = run(['--help'])\n"
        f"heavy = [name for name in {HEAVY} if name in sys.modules]\n"
        "loaded = [name for name in sys.modules if name.startswith(('icemirror.cli.', 'icemirror.settings'))]\n"
        "print(status, heavy, sorted(loaded), file=sys.stderr)\n"
    )
    loaded = [
        "icemirror.cli.command_end",
        "icemirror.cli.command_list",
        "icemirror.cli.main",
        "icemirror.cli.setup",
        "icemirror.cli.setup.configuration",
        *(f"icemirror.cli.terminal{module}" for module in ("", ".console", ".interrupts")),
    ]
    assert completed.stderr.strip() == f"0 [] {loaded}"
    for name, command in COMMANDS.items():
        assert f"  {name} " in completed.stdout
        assert command.help in completed.stdout


def test_config_check_loads_no_heavy_module(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    completed = python(
        "import sys\nfrom icemirror.cli.main import run\n"
        f"status = run(['config', 'check', '-c', {str(tmp_path / 'c.yaml')!r}])\n"
        f"print(status, [name for name in {HEAVY} if name in sys.modules], file=sys.stderr)\n"
    )
    assert completed.stderr.strip() == "0 []"


@pytest.mark.parametrize("printer", ["click.echo('x' * 9)", "out.print('x' * 9)", "print('x' * 9)"])
def test_closed_pipe_ends_without_an_error_message(printer: str) -> None:
    code = (
        "import sys, click, icemirror.cli.main as m, icemirror.cli.commands.config as c\n"
        "from icemirror.cli.terminal.console import out\n"
        f"c.schema.callback = lambda: [{printer} for _ in range(20000)]\n"
        "sys.argv = ['icemirror', 'config', 'schema']\nm.main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_python_dash_m_runs_the_same_command() -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "icemirror", "--version"], capture_output=True, text=True, check=True
    )
    assert completed.stdout == f"icemirror {__version__}\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_cause_no_error(closed: str) -> None:
    completed = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m icemirror config schema {closed}"], check=False
    )
    assert completed.returncode == 0
