"""Ctrl-C prints "interrupted" and exits with 130, also while modules are imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from icemirror.cli import command_end

# Interrupts the import of a module; `becomes` is the error that the import raises instead.
SCRIPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore SIGINT

class Finder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise {becomes}

from icemirror.cli.entry import main
sys.meta_path.insert(0, Finder())
sys.argv = ["icemirror", "config", "schema"]
main()
"""


@pytest.mark.parametrize("becomes", ["", "RuntimeError('a class could not be made')"])
@pytest.mark.parametrize(
    "module", ["icemirror.cli.main", "icemirror.cli.commands.config", "icemirror.config_file.schema"]
)
def test_interrupt_during_an_import_exits_with_130(module: str, becomes: str) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(module=module, becomes=becomes)], capture_output=True, text=True
    )
    assert (completed.returncode, completed.stderr.strip().splitlines()[-1:]) == (130, ["interrupted"])
    assert "Traceback" not in completed.stderr


def test_error_without_an_interrupt_is_unexpected(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_end.report_command_end(RuntimeError("odd"), debug=False) == 1
    assert "unexpected" in capsys.readouterr().err
