"""The command line as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from icemirror import __version__
from icemirror.cli.main import COMMANDS

HEAVY = ("pyspark", "pyarrow", "pyiceberg", "pandas", "numpy", "duckdb")


CONFIG = "iceberg: {catalog: {type: glue}}\ntables: [{changelog: raw.o, mirror: shop.o}]\n"


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_lists_every_command_without_importing_it() -> None:
    done = python(
        "import sys\nfrom icemirror.cli.main import run\nstatus = run(['--help'])\n"
        f"heavy = [name for name in {HEAVY} if name in sys.modules]\n"
        "loaded = [name for name in sys.modules if name.startswith(('icemirror.cli.', 'icemirror.settings'))]\n"
        "print(status, heavy, sorted(loaded), file=sys.stderr)\n"
    )
    loaded = [
        "icemirror.cli.main",
        *(f"icemirror.cli.terminal{one}" for one in ("", ".console", ".interrupts")),
    ]
    assert done.stderr.strip() == f"0 [] {loaded}"
    for name, command in COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert command.help in done.stdout


def test_checking_a_configuration_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    done = python(
        "import sys\nfrom icemirror.cli.main import run\n"
        f"status = run(['config', 'check', '-c', {str(tmp_path / 'c.yaml')!r}])\n"
        f"print(status, [name for name in {HEAVY} if name in sys.modules], file=sys.stderr)\n"
    )
    assert done.stderr.strip() == "0 []"


@pytest.mark.parametrize("printer", ["click.echo('x' * 9)", "out.print('x' * 9)", "print('x' * 9)"])
def test_a_closed_pipe_ends_quietly(printer: str) -> None:
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


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "icemirror", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"icemirror {__version__}\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed: str) -> None:
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m icemirror config schema {closed}"], check=False)
    assert done.returncode == 0
